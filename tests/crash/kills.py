"""F1: ``kill -9`` of a frontier with a feed, without Scrapy's engine, at random."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from typing import TYPE_CHECKING, Any

from trial import OK, Fault, Outcome, crashed
from worker import fork_worker, run_to_end
from world import Report, World, judge

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 30_000
LONGEST = 0.12
"""Seconds until the kill, at most."""
BATCHES = (1, 10, 100, 1000)


class Kills(Fault):
    """A crawl that is killed again and again, then runs to its end."""

    number = "F1"
    name = "`kill -9` of a frontier with a feed"
    trials = 120

    def quick(self, folder: Path, seed: int) -> list[Outcome]:
        return _crawl(folder, seed, kills=3, size=10_000)

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _crawl(folder, seed, kills=20)

    def control(self, folder: Path, seed: int) -> list[Outcome]:
        """Marks before their requests; items before their requests are done."""
        for name in ("marks_first", "lines_first"):
            (folder / name).mkdir()
        marks = _crawl(
            folder / "marks_first", seed, kills=6, size=10_000, marks_first=True
        )
        lines = _crawl(
            folder / "lines_first", seed, kills=6, size=10_000, lines_first=True
        )
        if any(set(outcomes) <= {OK} for outcomes in (marks, lines)):
            return [OK]
        return marks + lines


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
        listen(pid, reading, rng.uniform(0, LONGEST), report)
        if report.finished:
            break  # before it could be killed
        outcomes.append(judge(path, world, report))
    status = run_to_end(path, world, report)
    if status != 0:
        outcomes[-1] = crashed(f"run to its end, it ended with {status}")
    elif outcomes[-1].verdict == "ok":
        outcomes[-1] = judge(path, world, report, ended=True)
    return outcomes


def listen(pid: int, reading: int, seconds: float | None, report: Report) -> int:
    """Read a worker's report, kill it so long after it has begun; its exit status."""
    data = b""
    deadline: float | None = None
    while True:
        if deadline is None and seconds is not None and b"begun\n" in data:
            deadline = time.monotonic() + seconds
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([reading], [], [], left)[0]:
                os.kill(pid, signal.SIGKILL)
                deadline = seconds = None
        piece = os.read(reading, 1 << 16)
        if not piece:
            break
        data += piece
    os.close(reading)
    report.read(data.splitlines(keepends=True))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
