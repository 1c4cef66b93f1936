"""What the fault trials have found once, each with a test of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import strace
from disk import STRACE_OPTIONS, TRACE, Directory, Disk
from io_errors import CALLS
from syscalls import judge_both
from trial import OK
from worker import REFUSED
from world import Report, World

if TYPE_CHECKING:
    from pathlib import Path

WORLD = World(1, 60)


@pytest.fixture(autouse=True)
def _strace() -> None:
    reason = strace.missing()
    if reason is not None:
        (pytest.fail if os.environ.get("BLOOMDUPE_TEST_ALL") else pytest.skip)(reason)


def test_a_store_stands_in_its_place_only_when_its_files_do(tmp_path: Path) -> None:
    """Found by F6: the names in it were not durable when its own name was."""
    crawl = tmp_path / "crawl"
    crawl.mkdir()
    run = strace.run(
        tmp_path / "log", crawl / "job" / "store", WORLD, 9,
        trace=TRACE, strace_options=STRACE_OPTIONS,
    )  # fmt: skip
    assert run.status == 0, run.errors
    disk = Disk(crawl)
    durable: list[set[str]] = []
    for _ in disk.replay(run.calls):
        job = disk.top.safe.get("job")
        store = job.safe.get("store") if isinstance(job, Directory) else None
        if isinstance(store, Directory):
            durable.append(set(store.safe))
        else:
            assert b"a " not in disk.report, "work was durable in no directory"
    assert durable
    assert all({"data.mdb", "store.json"} <= names for names in durable)


@pytest.mark.parametrize("which", [0.0, 0.5, 0.8])
def test_a_data_file_that_cannot_be_looked_at(tmp_path: Path, which: float) -> None:
    """Found by F5: a traceback, and after a commit the crawl would have gone on."""
    path = tmp_path / "dry"
    dry = strace.run(tmp_path / "log", path, WORLD, 9, trace=CALLS)
    looks = [
        call
        for call in dry.calls
        if call.name == "newfstatat" and f"{path}/data.mdb" in call.arguments
    ]
    call = looks[int(which * len(looks))]
    path = tmp_path / "err"  # as long a name, so that the calls are the same
    run = strace.run(
        tmp_path / "log", path, WORLD, 9,
        trace=CALLS, strace_options=strace.inject(call, "error=EIO"),
    )  # fmt: skip
    assert run.status == REFUSED, run.errors
    (line,) = run.errors.splitlines()
    assert "Input/output error" in line
    report = Report()
    report.read(run.report.splitlines(keepends=True))
    assert judge_both(path, WORLD, report, "") == OK
