"""F2: ``kill -9`` at every system call that writes or syncs.

The odd cases begin with a store that was killed before. From the first mark on, the
next process must find that nothing but the killed one has changed the file, so it need
not check all of it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import strace
from trial import CONTROL_SEED, Fault, Outcome, crashed, each_caught, silently_wrong
from worker import fork_worker, run_to_end
from world import Report, World, judge

from bloomdupe.store import files
from bloomdupe.store.lmdb import open_data

SIZE = 60
BATCH = 9
PARTS = 10
"""Cases that share the points of one crawl, each to try every tenth."""


class SystemCalls(Fault):
    """A crawl that is killed when it enters its n-th call of a kind."""

    number = "F2"
    name = "`kill -9` at every write and sync system call"
    trials = 100
    cases = PARTS  # every other point

    def missing(self) -> str | None:
        return strace.missing()

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _crawls(folder, seed)

    def control(self, folder: Path) -> list[Outcome]:
        """Marks are durable before their requests; a commit is not noted before."""

        def crawls(few: int, **options: Any) -> Callable[[Path], list[Outcome]]:
            return lambda place: _crawls(place, 2 * CONTROL_SEED, few=few, **options)

        return each_caught(
            folder,
            crawls(3, marks_first=True),
            crawls(9, before=without_note),
        )


def _crawls(
    folder: Path, seed: int, *, few: int | None = None, **options: Any
) -> list[Outcome]:
    """Try every tenth point, or a ``few`` of all."""
    open_data.COMMIT_NANOSECONDS = 3600 * 10**9  # strace may take its time
    world = World(seed // PARTS // 2, SIZE)
    begun = folder / "begun"
    before = Report()
    if seed % 2:
        prepare(begun, world, before)
    path = start_from(begun, folder / "dry")
    dry = strace.run(folder / "log", path, world, BATCH, **options)
    if dry.status:
        return [crashed(f"undisturbed, it ended with {dry.status}: {dry.errors}")]
    points = dry.calls[seed // 2 % PARTS :: PARTS]
    if few is not None:
        points = dry.calls[:: -(-len(dry.calls) // few)]
    outcomes = []
    for call in points:
        place = folder / f"{call.name}-{call.nth}"
        path = start_from(begun, place)
        report = before.copy()
        run = strace.run(
            folder / "log", path, world, BATCH,
            strace_options=strace.inject(call, "signal=SIGKILL"), **options,
        )  # fmt: skip
        report.read(run.report.splitlines(keepends=True))
        if report.finished:
            continue  # that call did not come
        where = f"{call.name} {call.nth}"
        outcomes.append(
            silently_wrong(f"{where}: it counts as changed by another program")
            if _distrusted(path)
            else judge_both(path, world, report, where)
        )
        if outcomes[-1].verdict == "ok":
            shutil.rmtree(place)
    return outcomes


def _distrusted(path: Path) -> bool:
    """Whether all of the file has to be checked, though it has a mark."""
    if not (path / files.DATA).exists():
        return False
    found = open_data.read_mark(path)
    return found.transaction > 0 and not (found.clean or found.interrupted)


def without_note(_: object) -> None:
    """Note nothing before a commit, for a control."""
    open_data.OpenData.begin_commit = lambda *_: None  # type: ignore[method-assign]


def prepare(place: Path, world: World, report: Report) -> None:
    """Make a job in the middle of a crawl, killed there."""
    place.mkdir()
    path = place / "job" / "store"
    pid, reading = fork_worker(path, world, BATCH, stop_after=world.size // BATCH // 3)
    with os.fdopen(reading, "rb") as pipe:
        report.read(pipe)
    os.waitpid(pid, 0)


def start_from(begun: Path, place: Path) -> Path:
    """Make a directory for a job, or copy a job that has begun; return its store."""
    if begun.exists():
        shutil.copytree(begun, place)
    else:
        place.mkdir()
    return place / "job" / "store"


def judge_both(path: Path, world: World, report: Report, where: str) -> Outcome:
    """Judge the files after a fault, and their crawl when it goes on."""
    outcome = judge(path, world, report)
    if outcome.verdict == "ok":
        status = run_to_end(path, world, report)
        if status:
            outcome = crashed(f"run to its end, it ended with {status}")
        else:
            outcome = judge(path, world, report, ended=True)
    if outcome.verdict == "ok":
        return outcome
    return Outcome(outcome.verdict, f"{where}: {outcome.words}")
