from __future__ import annotations

import json
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.waiting import until_later

from bloomdupe import BloomFilter
from bloomdupe.errors import (
    StoreDamagedError,
    StoreError,
    StoreIOError,
)
from bloomdupe.store import files, platform
from bloomdupe.store.files import check_file_system
from bloomdupe.store.lmdb import check as check_module
from bloomdupe.store.lmdb import open_data
from bloomdupe.store.lmdb.open_data import read_mark

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with BloomFilter.open(tmp_path / "seen", 1000) as seen:
        seen.add("a")
    return tmp_path / "seen"


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the data files that are checked from now on."""
    checked: list[Path] = []

    def check(data: Path, *arguments: object) -> object:
        checked.append(data)
        return real(data, *arguments)

    real: Any = check_module.check
    monkeypatch.setattr(check_module, "check", check)
    return checked


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit may take an hour: this process may have to wait for the machine."""
    monkeypatch.setattr(open_data, "COMMIT_NANOSECONDS", 3600 * 10**9)


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


def start_machine(path: Path) -> None:
    change_mark(path, boot="another")


def delete_mark(path: Path) -> None:
    (path / "clean.json").unlink()


@pytest.mark.parametrize("change", [touch, replace, start_machine, delete_mark])
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


# A commit that was not finished


def end_in_commit(path: Path, kind: str) -> int:
    """Let a process end while LMDB writes the pages of a commit; return its status."""
    with BloomFilter.open(path) as seen:
        for number in range(400):
            seen.add(str(number))
    until_later(path / "data.mdb")
    before = (path / "data.mdb").stat()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            seen = BloomFilter.open(path)
            for number in range(400, 900):
                seen.add(str(number))
            # LMDB writes the pages in their order, the new pages of the file last.
            resource.setrlimit(resource.RLIMIT_FSIZE, (before.st_size,) * 2)
            if kind == "killed":
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            seen.checkpoint()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert (path / "data.mdb").stat().st_mtime_ns > before.st_mtime_ns
    return os.waitstatus_to_exitcode(status)


@pytest.fixture
def interrupted(path: Path) -> Path:
    """Return a store with an owner that was killed in a commit."""
    assert end_in_commit(path, "killed") == -signal.SIGXFSZ
    return path


def test_after_a_kill_in_a_commit_nothing_is_checked(
    interrupted: Path, checks: list[Path]
) -> None:
    for readonly in (True, False, True):
        with BloomFilter.open(interrupted, readonly=readonly) as seen:
            assert len(seen) == 401
    assert checks == []
    assert read_mark(interrupted).clean


def test_after_a_failed_commit_the_file_is_checked(
    path: Path, checks: list[Path]
) -> None:
    assert end_in_commit(path, "refused") == 1
    BloomFilter.open(path).close()
    assert checks == [path / "data.mdb"]


def change_mark(path: Path, **changes: object) -> None:
    mark = json.loads((path / "clean.json").read_text("ascii"))
    (path / "clean.json").write_text(json.dumps(mark | changes))


def change_later(path: Path) -> None:
    written = (path / "data.mdb").stat().st_ctime_ns
    change_mark(path, committing=written - open_data.COMMIT_NANOSECONDS - 1)


def set_time(path: Path) -> None:
    os.utime(path / "data.mdb", ns=(1, 1))


def cut(path: Path) -> None:
    change_mark(path, size=(path / "data.mdb").stat().st_size + 1)


def change_before(path: Path) -> None:
    change_mark(path, changed=(path / "data.mdb").stat().st_ctime_ns + 1)


@pytest.mark.parametrize(
    "change",
    [
        replace, start_machine, delete_mark, change_later, set_time, cut, change_before,
    ],
)  # fmt: skip
def test_a_change_of_an_interrupted_commit_by_another_program_is_found(
    interrupted: Path, checks: list[Path], change: Callable[[Path], None]
) -> None:
    change(interrupted)
    with suppress(StoreDamagedError):
        BloomFilter.open(interrupted).close()
    assert checks == [interrupted / "data.mdb"]


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


# Who uses it


# The marker


def test_a_file_that_goes_away_in_use_takes_no_commit(path: Path) -> None:
    seen = BloomFilter.open(path)
    (path / "data.mdb").rename(path / "gone.mdb")
    seen.add("b")
    for _ in range(2):
        with pytest.raises(StoreIOError, match="deleted, replaced or cut short"):
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
    monkeypatch.setattr(platform, "MOUNTS", table)
    if not refused:
        check_file_system(job)
        return
    with pytest.raises(StoreError, match=rf"{job} is .*\({kind}\).*local disk"):
        check_file_system(job)


# A file that is written as a whole


def test_the_rest_of_a_killed_writer_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "file.new").write_bytes(b"much longer than the file")
    files.write_file(tmp_path / "file", [b"new"])
    assert (tmp_path / "file").read_bytes() == b"new"
    assert not (tmp_path / "file.new").exists()
