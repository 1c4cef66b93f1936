from __future__ import annotations

import errno
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.forks import forked

from bloomdupe import BloomFilter
from bloomdupe.errors import (
    StoreError,
    StoreFullError,
    StoreIOError,
)
from bloomdupe.store.system_errors import reason_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a store with 3,000 keys in two layers, pages and journal."""
    place = tmp_path / "seen"
    with BloomFilter.open(place, 2000, 1e-3) as seen:
        for number in range(2500):
            seen.add(str(number), exact=number % 2 == 0)
        seen.fold()
        seen.update(map(str, range(2500, 3000)))
    return place


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
    calls: dict[str, tuple[Path, Callable[[], object]]] = {
        "create": (tmp_path / "new.creating", lambda: BloomFilter.open(new, 1000)),
        "backup": (tmp_path / "new.creating", lambda: backup(path, new)),
    }
    link, call_ = calls[call]
    link.symlink_to(victim)
    with pytest.raises(StoreError, match=f"{link.name} is a link or a file"):
        call_()
    assert [file.name for file in victim.iterdir()] == ["precious"]
    assert link.is_symlink()
    assert not new.exists()
    link.unlink()
    call_()
    assert [file.name for file in victim.iterdir()] == ["precious"]


def backup(store: Path, target: Path) -> None:
    with BloomFilter.open(store) as seen:
        seen.backup(target)


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
def test_a_crawl_has_the_reason_of_its_failure(cause: Exception, reason: str) -> None:
    error = StoreError("the last checkpoint stands")
    error.__cause__ = cause
    assert reason_of(cause) == reason_of(error) == reason
