"""The directory of a store: who makes, marks, changes and fills its files."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.forks import forked
from support.shared_data import lacks
from support.waiting import until_later

from bloomdupe import BloomFilter
from bloomdupe.errors import StoreError, StoreFullError, StoreIOError
from bloomdupe.store import files, platform
from bloomdupe.store.lmdb.checked_reading import examine
from bloomdupe.store.lmdb.open_data import read_mark
from bloomdupe.store.system_errors import failed, reason_of

NOBODY = 65534


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with BloomFilter.open(tmp_path / "seen", 1000) as seen:
        seen.add("a")
    return tmp_path / "seen"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the data files that are checked from now on."""
    checked: list[Path] = []

    def noted(data: Path, why: str = "") -> object:
        checked.append(data)
        return examine(data, why)

    monkeypatch.setattr("bloomdupe.store.lmdb.check.examine", noted)
    return checked


# Creation (what is no store, and refused: tests/crash/refusals.py)


def test_a_place_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot create a store at .*file/seen"):
        BloomFilter.open(tmp_path / "file" / "seen", 1000)
    with pytest.raises(StoreError, match=r"cannot look for a store at .*/xxx"):
        BloomFilter.open(tmp_path / ("x" * 300), 1000)


@pytest.mark.parametrize("call", ["create", "backup"])
def test_a_planted_link_is_not_followed(path: Path, tmp_path: Path, call: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("mine")
    new = tmp_path / "new"
    link = tmp_path / "new.creating"
    link.symlink_to(victim)
    calls: dict[str, Callable[[], object]] = {
        "create": lambda: BloomFilter.open(new, 1000),
        "backup": lambda: backup(path, new),
    }
    with pytest.raises(StoreError, match=f"{link.name} is a link or a file"):
        calls[call]()
    assert [file.name for file in victim.iterdir()] == ["precious"]
    assert link.is_symlink()
    assert not new.exists()
    link.unlink()
    calls[call]()
    assert [file.name for file in victim.iterdir()] == ["precious"]


def backup(store: Path, target: Path) -> None:
    with BloomFilter.open(store) as seen:
        seen.backup(target)


@pytest.mark.parametrize("slow", ["lock_owner", "put_directory"])
def test_a_store_that_another_process_makes_meanwhile_is_opened(
    path: Path, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    place, building = path.with_name("new"), path.with_name("new.creating")
    then = getattr(files, slow)

    def too_late(*args: Path) -> object:
        monkeypatch.undo()
        path.rename(place)
        if slow == "lock_owner":
            building.rmdir()
        return then(*args)

    monkeypatch.setattr(files, slow, too_late)
    with BloomFilter.open(place, 1000) as seen:
        assert "a" in seen
    assert not building.exists()


def test_what_root_makes_belongs_to_the_owner_of_the_directory(path: Path) -> None:
    if os.geteuid():
        lacks("needs root")
    for one in (path, *path.iterdir()):
        os.chown(one, NOBODY, NOBODY)
        if one.name in {files.OWNER, files.LMDB_LOCK, files.MARK}:
            one.unlink()
    with BloomFilter.open(path) as seen:
        seen.add("b")
    assert len([*path.iterdir()]) == 4
    assert {one.stat().st_uid for one in path.iterdir()} == {NOBODY}


def test_files_are_private_also_those_of_a_copy(path: Path, tmp_path: Path) -> None:
    backup(path, tmp_path / "copy")
    for directory in (path, tmp_path / "copy"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert stat.S_IMODE((directory / "data.mdb").stat().st_mode) == 0o600
    assert stat.S_IMODE((path / "owner.lock").stat().st_mode) == 0o600


# One owner


def test_a_forked_child_cannot_write(path: Path) -> None:
    with BloomFilter.open(path) as seen:
        seen.add("of the parent")

        def write() -> None:
            with pytest.raises(StoreError, match="forked child"):
                seen.checkpoint()
            sys.exit(7)

        process = forked(write)
        process.join()
        assert process.exitcode == 7
    with BloomFilter.open(path) as seen:
        assert "of the parent" in seen


# The mark


def test_an_untouched_file_is_not_checked(path: Path, checks: list[Path]) -> None:
    BloomFilter.open(path).close()
    BloomFilter.open(path, readonly=True).close()
    assert checks == []


def touch(path: Path) -> None:
    (path / "data.mdb").touch()


def replace(path: Path) -> None:
    data = (path / "data.mdb").read_bytes()
    (path / "data.mdb").rename(path / "other")  # so that its inode is not used again
    (path / "data.mdb").write_bytes(data)


def change_mark(path: Path, **changes: object) -> None:
    mark = json.loads((path / "clean.json").read_text("ascii"))
    (path / "clean.json").write_text(json.dumps(mark | changes))


def start_machine(path: Path) -> None:
    change_mark(path, boot="another")


def delete_mark(path: Path) -> None:
    (path / "clean.json").unlink()


def nest_mark(path: Path) -> None:
    (path / "clean.json").write_text('{"a":' + "[" * 100_000)


@pytest.mark.parametrize(
    "change", [touch, replace, start_machine, delete_mark, nest_mark]
)
def test_a_file_that_may_have_changed_is_checked_once(
    path: Path, checks: list[Path], change: object
) -> None:
    assert callable(change)
    until_later(path / "data.mdb")
    change(path)
    assert not read_mark(path)[0]
    BloomFilter.open(path, readonly=True).close()
    BloomFilter.open(path).close()
    BloomFilter.open(path).close()
    assert checks == [path / "data.mdb"] * 2  # who only reads leaves no mark


def test_a_file_that_another_program_writes_gets_no_mark(path: Path) -> None:
    with BloomFilter.open(path) as seen:
        seen.add("b")
        seen.checkpoint()
        assert read_mark(path)[0]
        os.utime(path / "data.mdb", ns=(1, 1))
        seen.add("c")
        seen.checkpoint()
        assert not read_mark(path)[0]
    assert not read_mark(path)[0]


# In use


def test_a_file_that_goes_away_in_use_takes_no_commit(path: Path) -> None:
    seen = BloomFilter.open(path)
    (path / "data.mdb").rename(path / "gone.mdb")
    seen.add("b")
    for _ in range(2):
        with pytest.raises(StoreIOError, match="deleted, replaced or truncated"):
            seen.checkpoint()
    with pytest.raises(StoreIOError):
        seen.close()
    (path / "gone.mdb").rename(path / "data.mdb")
    with BloomFilter.open(path) as again:
        assert len(again) == 1


# The lock file


def test_the_lock_file_has_its_space_on_disk(path: Path) -> None:
    found = (path / "lock.mdb").stat()
    assert found.st_blocks * 512 >= files.LOCK_BYTES
    os.truncate(path / "lock.mdb", 0)
    os.truncate(path / "lock.mdb", files.LOCK_BYTES)  # a hole, as LMDB makes it
    BloomFilter.open(path).close()
    assert (path / "lock.mdb").stat().st_blocks * 512 >= files.LOCK_BYTES


# File systems


@pytest.mark.parametrize(
    ("number", "kind", "refused"),
    [
        ("{}", "nfs4", True),
        ("{}", "cifs", True),
        ("{}", "fuse.sshfs", True),
        ("{}", "xfs", False),
        ("{}0", "nfs", False),
    ],
)
def test_network_file_systems_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: str,
    kind: str,
    refused: bool,
) -> None:
    job = tmp_path / "not there" / "job"
    device = tmp_path.stat().st_dev
    line = "36 21 {} / /home rw,relatime shared:20 - {} server:/home rw\n"
    mounted = line.format(number.format(f"{os.major(device)}:{os.minor(device)}"), kind)
    table = tmp_path / "mountinfo"
    table.write_text(line.format("0:0", "nfs") + mounted)
    BloomFilter.open(tmp_path / "seen", 1000).close()
    monkeypatch.setattr(platform, "MOUNTS", table)
    BloomFilter.open(tmp_path / "seen", readonly=True).close()
    for place in (job, tmp_path / "seen"):
        if not refused:
            BloomFilter.open(place, 1000).close()
            continue
        with pytest.raises(StoreError, match=rf"{place} is .*\({kind}\).*local disk"):
            BloomFilter.open(place, 1000)


# A file that is written as a whole


def test_the_rest_of_a_killed_writer_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    opened = Path("/proc/self/fd")
    monkeypatch.setattr(
        files, "sync", lambda fd: synced.append((opened / str(fd)).readlink())
    )
    (tmp_path / "file.new").write_bytes(b"much longer than the file")
    files.write_file(tmp_path / "file", [b"new"])
    assert synced == [tmp_path / "file.new", tmp_path]
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file.new").exists()


# Errors (damage in a file: tests/crash/damage.py)


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (StoreFullError("x"), "frontier_disk_full"),
        (OSError(errno.ENOSPC, "x"), "frontier_disk_full"),
        (StoreIOError("x"), "frontier_io_error"),
        (OSError(errno.EIO, "x"), "frontier_io_error"),
        (MemoryError(), "out_of_memory"),
        (OSError(errno.EACCES, "x"), "frontier_error"),
    ],
)
def test_a_crawl_has_the_reason_of_its_failure(
    tmp_path: Path, cause: Exception, reason: str
) -> None:
    error = StoreError("the last checkpoint stands")
    error.__cause__ = cause
    assert reason_of(cause) == reason_of(error) == reason
    if type(cause) is OSError:
        assert reason_of(failed("it", tmp_path, cause)) == reason
