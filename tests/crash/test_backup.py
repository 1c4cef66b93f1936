"""A backup of a store that is being written to: work goes on from it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from child import in_child
from trial import OK, Outcome, lost
from worker import Worker, recovered
from world import Report, World

from bloomdupe import BloomFilter
from bloomdupe.store import files
from bloomdupe.store.lmdb.check import verify

# A backup is of the store alone; an output file that has grown since is refused.
WORLD = World(1, 5_000, feeds=False)
COMMITS = 40


class Load:
    """A worker that commits, as far as its report is read, and some commits further."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.report = Report()
        self._worker = Worker(path, WORLD, 5)

    def until_committed(self, count: int) -> None:
        """Read on until there were so many commits more."""
        while count:
            line = self._worker.report.readline()
            self.report.read(line)
            count -= line.startswith(b"a ")

    def end(self) -> None:
        """Kill it, and read the rest of its report."""
        self._worker.process.kill()
        self._worker.finish(self.report)


def backup(load: Load, target: Path) -> None:
    with BloomFilter.open(load.path, readonly=True) as seen:
        seen.backup(target)


def plain_copy(load: Load, target: Path) -> None:
    """Copy the file while it is written to, for the control."""
    target.mkdir()
    with (
        (load.path / files.DATA).open("rb") as old,
        (target / files.DATA).open("wb") as new,
    ):
        new.write(old.read(8192))
        load.until_committed(COMMITS)
        shutil.copyfileobj(old, new)


def gone_on(backup: Path, report: Report) -> Outcome:
    if problems := verify(backup).problems:
        return lost(f"the backup does not verify: {problems[0]}")
    path = backup.with_name(f"{backup.name}-copy")
    shutil.copytree(backup, path)
    return recovered(path, WORLD, report)


def outcomes(
    folder: Path, count: int, copy: Callable[[Load, Path], None]
) -> list[Outcome]:
    load = Load(folder / "job" / "store")
    made = []
    for number in range(count):
        load.until_committed(COMMITS)
        done = {*load.report.acknowledged}
        copy(load, folder / f"backup-{number}")
        made.append((folder / f"backup-{number}", done))
    load.end()
    reports = [(place, Report({*load.report.started}, done)) for place, done in made]
    return [in_child(lambda: gone_on(*each)) for each in reports]


def test_backups_of_a_store_in_use_can_be_crawled_to_their_end(tmp_path: Path) -> None:
    assert outcomes(tmp_path, 3, backup) == [OK] * 3


def test_the_control_is_a_plain_copy_of_the_file(tmp_path: Path) -> None:
    assert outcomes(tmp_path, 1, plain_copy) != [OK]
