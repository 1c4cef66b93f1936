"""F14: backups of a store that is being written to, and work that goes on from them."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from child import in_child
from crawl_kills import last_transaction
from support.harness import DEADLINE
from trial import CONTROL_SEED, Fault, Outcome, lost
from worker import fork_worker, run_to_end
from world import Report, World, judge

from bloomdupe import BloomFilter
from bloomdupe.store import files
from bloomdupe.store.lmdb.check import verify

SIZE = 30_000
BATCH = 20
PAUSE = 0.2
"""Seconds between two backups at most."""


class Backups(Fault):
    """Hot copies, verified, copied elsewhere, and run to their end."""

    number = "F14"
    name = "backup under load"
    trials = 5

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _backed_up(folder, seed, 5, SIZE, hot)

    def control(self, folder: Path) -> list[Outcome]:
        """With a plain copy of the file."""
        return _backed_up(folder, CONTROL_SEED, 1, SIZE, plain)


def hot(source: Path, target: Path) -> None:
    with BloomFilter.open(source, readonly=True) as seen:
        seen.backup(target)


def plain(source: Path, target: Path) -> None:
    target.mkdir()
    with (
        (source / files.DATA).open("rb") as old,
        (target / files.DATA).open("wb") as new,
    ):
        new.write(old.read(8192))
        wait_for_commits(source, 50)
        shutil.copyfileobj(old, new)


def wait_for_commits(source: Path, count: int) -> None:
    """Wait until a store has been written to so many times more."""
    goal = last_transaction(source) + count
    deadline = time.monotonic() + DEADLINE
    while last_transaction(source) < goal:
        assert time.monotonic() < deadline, "no process writes to the store"
        time.sleep(0.01)


class Load:
    """A worker that runs, and its report until now."""

    def __init__(self, path: Path, world: World) -> None:
        self.pid, self._reading = fork_worker(path, world, BATCH)
        self.report = Report()
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with os.fdopen(self._reading, "rb") as pipe:
            for line in pipe:
                with self._lock:
                    self.report.read([line])

    def until_now(self) -> Report:
        with self._lock:
            return self.report.copy()

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._reader.join()


@contextmanager
def _load(path: Path, world: World) -> Iterator[Load]:
    load = Load(path, world)
    try:
        while not load.until_now().acknowledged:
            time.sleep(0.01)
        yield load
    finally:
        load.stop()


def _backed_up(
    folder: Path,
    seed: int,
    backups: int,
    size: int,
    copy: Callable[[Path, Path], None],
) -> list[Outcome]:
    rng = random.Random(seed)
    # A backup is of the store alone; an output file that has grown since is refused.
    world = World(seed, size, feeds=False)
    path = folder / "job" / "store"
    made = []
    with _load(path, world) as load:
        for number in range(backups):
            time.sleep(rng.uniform(0, PAUSE))
            target = folder / f"backup-{number}"
            acknowledged = load.until_now().acknowledged
            copy(path, target)
            made.append((target, acknowledged))
    # Requests in a backup were begun before it; by now all their lines are read.
    started = load.report.started
    outcomes = []
    for target, acknowledged in made:
        report = Report(set(started), set(acknowledged))
        outcomes.append(in_child(lambda: _goes_on(target, world, report)))  # noqa: B023
    return outcomes


def _goes_on(backup: Path, world: World, report: Report) -> Outcome:
    if problems := verify(backup).problems:
        return lost(f"the backup does not verify: {problems[0]}")
    path = backup.with_name(f"{backup.name}-copy")
    shutil.copytree(backup, path)
    outcome = judge(path, world, report)
    if outcome.verdict != "ok":
        return outcome
    if run_to_end(path, world, report):
        return lost("it cannot be run to its end")
    return judge(path, world, report, ended=True)
