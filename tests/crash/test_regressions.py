"""Faults that the trials have found, each with a test of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import strace
from disk import STRACE_OPTIONS, TRACE, Directory, Disk
from strace import Call
from syscalls import IOErrors, start_from
from trial import OK
from worker import REFUSED, recovered
from world import Report, World

WORLD = World(1, 60)


@pytest.fixture(autouse=True)
def _strace() -> None:
    reason = strace.missing()
    if reason is not None:
        (pytest.fail if os.environ.get("BLOOMDUPE_TEST_ALL") else pytest.skip)(reason)


def traced(folder: Path) -> tuple[Disk, list[Call]]:
    """Crawl, and return its disk as it was before, and the system calls."""
    crawl = folder / "crawl"
    crawl.mkdir()
    run = strace.run(
        folder / "log", crawl / "job" / "store", WORLD, 9,
        trace=TRACE, strace_options=STRACE_OPTIONS,
    )  # fmt: skip
    assert run.status == 0, run.errors
    disk = Disk(crawl)
    return disk, run.calls


def test_a_store_appears_only_with_all_its_files(tmp_path: Path) -> None:
    """Found by F4: the names in it were not durable when its own name was."""
    disk, calls = traced(tmp_path)
    durable: list[set[str]] = []
    for _ in disk.replay(calls):
        job = disk.top.safe.get("job")
        store = job.safe.get("store") if isinstance(job, Directory) else None
        if isinstance(store, Directory):
            durable.append(set(store.safe))
        else:
            assert b"a " not in disk.report, "work was durable in no directory"
    assert durable
    assert all({"data.mdb", "store.json"} <= names for names in durable)


def test_the_folder_of_an_output_file_is_durable_with_it(tmp_path: Path) -> None:
    """Found by F4: the name of a folder that the feed had made was not synced."""
    disk, calls = traced(tmp_path)
    for _ in disk.replay(calls):
        pass
    folder = disk.top.safe.get("out")
    assert isinstance(folder, Directory)
    assert "items.jsonl" in folder.safe


@pytest.mark.parametrize("which", [0.0, 0.5, 0.8])
def test_a_data_file_that_cannot_be_looked_at(tmp_path: Path, which: float) -> None:
    """A traceback once, and after a commit the crawl would have gone on."""
    path = start_from(tmp_path / "none", tmp_path / "dry")
    dry = strace.run(tmp_path / "log", path, WORLD, 9, trace=IOErrors.traced)
    looks = [
        call
        for call in dry.calls
        if call.name == "newfstatat" and f"{path}/data.mdb" in call.arguments
    ]
    call = looks[int(which * len(looks))]
    # As long a name, so that the calls are the same.
    path = start_from(tmp_path / "none", tmp_path / "err")
    run = strace.run(
        tmp_path / "log", path, WORLD, 9,
        trace=IOErrors.traced, strace_options=strace.inject(call, "error=EIO"),
    )  # fmt: skip
    assert run.status == REFUSED, run.errors
    (line,) = run.errors.splitlines()
    assert "Input/output error" in line
    report = Report()
    report.read(run.report)
    assert recovered(path, WORLD, report) == OK
