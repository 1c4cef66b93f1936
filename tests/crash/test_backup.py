"""A backup of a store that is being written to: work goes on from it."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from child import in_child
from support.forks import forked
from trial import OK, Outcome, lost
from worker import crawl, recovered
from world import Report, World

from bloomdupe import BloomFilter
from bloomdupe.store import files
from bloomdupe.store.lmdb.check import verify

pytestmark = pytest.mark.slow

# A backup is of the store alone; an output file that has grown since is refused.
WORLD = World(1, 5_000, feeds=False)
COMMITS = 40
PIPE = 4096
"""Bytes."""

Meanwhile: TypeAlias = Callable[[], None]
"""Lets the worker commit, as far as its report is read, and some commits further."""


def backup(path: Path, target: Path, _: Meanwhile) -> None:
    with BloomFilter.open(path, readonly=True) as seen:
        seen.backup(target)


def plain_copy(path: Path, target: Path, meanwhile: Meanwhile) -> None:
    """Copy the file while it is written to, for the control."""
    target.mkdir()
    with (
        (path / files.DATA).open("rb") as old,
        (target / files.DATA).open("wb") as new,
    ):
        new.write(old.read(8192))
        meanwhile()
        shutil.copyfileobj(old, new)


def gone_on(backup: Path, report: Report) -> Outcome:
    if problems := verify(backup).problems:
        return lost(f"the backup does not verify: {problems[0]}")
    path = backup.with_name(f"{backup.name}-copy")
    shutil.copytree(backup, path)
    return recovered(path, WORLD, report)


def outcomes(
    folder: Path, count: int, copy: Callable[[Path, Path, Meanwhile], None]
) -> list[Outcome]:
    path, report = folder / "job" / "store", Report()
    reading, writing = os.pipe()
    # So it cannot come to its end without a reader.
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE)
    worker = forked(lambda: crawl(path, WORLD, partial(os.write, writing), 5))
    os.close(writing)
    lines = os.fdopen(reading, "rb")

    def commits() -> None:
        """Read the report of the worker on, until there were some commits more."""
        left = COMMITS
        while left:
            line = lines.readline()
            report.read(line)
            left -= line.startswith(b"a ")

    made = []
    for number in range(count):
        commits()
        done = {*report.acknowledged}
        copy(path, folder / f"backup-{number}", commits)
        made.append((folder / f"backup-{number}", done))
    worker.kill()
    with lines:
        report.read(lines.read())
    worker.join()
    reports = [(place, Report({*report.started}, done)) for place, done in made]
    return [in_child(lambda: gone_on(*each)) for each in reports]


def test_backups_of_a_store_in_use_can_be_crawled_to_their_end(tmp_path: Path) -> None:
    assert outcomes(tmp_path, 3, backup) == [OK] * 3


def test_the_control_is_a_plain_copy_of_the_file(tmp_path: Path) -> None:
    assert outcomes(tmp_path, 1, plain_copy) != [OK]
