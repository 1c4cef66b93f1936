"""F1: ``kill -9`` of a frontier with a feed, without Scrapy's engine, at random."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trial import CONTROL_SEED, Fault, Outcome, crashed, each_caught
from worker import fork_worker, run_to_end
from world import Report, World, judge

SIZE, FEW = 12_000, 30
MOST_REQUESTS = 500
"""Until the kill."""
BATCHES = (1, 10, 100, 1000)


class Kills(Fault):
    """A crawl that is killed again and again, then runs to its end."""

    number = "F1"
    name = "`kill -9` of a frontier with a feed"
    trials = 40

    def quick(self, folder: Path, seed: int) -> list[Outcome]:
        return _crawl(folder, seed, kills=3, size=10_000)

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _crawl(folder, seed, kills=20)

    def control(self, folder: Path) -> list[Outcome]:
        """Marks before their requests; items before their requests are done."""

        def without(name: str) -> Callable[[Path], list[Outcome]]:
            return lambda place: [_killed_by_itself(place, CONTROL_SEED, name)]

        return each_caught(folder, without("marks_first"), without("lines_first"))


def _crawl(
    folder: Path,
    seed: int,
    kills: int,
    size: int = SIZE,
    **options: Any,
) -> list[Outcome]:
    rng = random.Random(seed)
    world = World(seed, size)
    path = folder / "job" / "store"
    report = Report()
    outcomes = []
    for _ in range(kills):
        batch = rng.choice(BATCHES)
        pid, reading = fork_worker(path, world, batch, **options)
        listen(pid, reading, rng.randrange(MOST_REQUESTS), report)
        if report.finished:
            break  # before it could be killed
        outcomes.append(judge(path, world, report))
    status = run_to_end(path, world, report)
    if status != 0:
        outcomes[-1] = crashed(f"run to its end, it ended with {status}")
    elif outcomes[-1].verdict == "ok":
        outcomes[-1] = judge(path, world, report, ended=True)
    return outcomes


def _killed_by_itself(folder: Path, seed: int, wrong: str) -> Outcome:
    """Crawl in a wrong way; it kills itself when that does most harm."""
    world, path, report = World(seed, FEW), folder / "job" / "store", Report()
    options: dict[str, Any] = {wrong: True, "dies_at": FEW}
    pid, reading = fork_worker(path, world, BATCHES[1], **options)
    listen(pid, reading, world.size, report)
    return judge(path, world, report)


def listen(
    pid: int,
    reading: int,
    requests: int,
    report: Report,
    meanwhile: Callable[[], object] | None = None,
    strike: Callable[[], object] | None = None,
) -> int:
    """Read a worker's report, and kill it after so many requests; its exit status.

    It goes on until the kill strikes, but not for long: its report is not read then.
    ``meanwhile`` is called at each line, and ``strike`` right before the kill.
    """
    lines = []
    with os.fdopen(reading, "rb") as pipe:
        for line in pipe:
            lines.append(line)
            requests -= line.startswith((b"begun", b"s "))
            if requests < 0:
                break
            if meanwhile is not None:
                meanwhile()
        if strike is not None:
            strike()
        os.kill(pid, signal.SIGKILL)
        lines += pipe
    report.read(lines)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
