"""A fork keeps no lock of its parent; what is no file is not written, nor a change.

Nor is it opened as a store: tests/crash/refusals.py.
"""

from __future__ import annotations

import os
from multiprocessing import Event
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.forks import forked

from bloomdupe.errors import StoreError, StoreLockedError
from bloomdupe.store.files import lock_owner, write_file
from bloomdupe.store.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_lock_is_free_while_a_fork_of_its_owner_lives(tmp_path: Path) -> None:
    lock = lock_owner(tmp_path)
    begun, over = Event(), Event()

    def live() -> None:
        begun.set()
        over.wait()

    process = forked(live)
    begun.wait()
    lock.close()
    lock_owner(tmp_path).close()
    over.set()
    process.join()
    assert process.exitcode == 0


def test_a_fork_that_closes_it_releases_nothing(tmp_path: Path) -> None:
    with lock_owner(tmp_path) as lock:
        process = forked(lock.close)
        process.join()
        assert process.exitcode == 0
        with pytest.raises(StoreLockedError, match="in use by this process;"):
            lock_owner(tmp_path)


def link(place: Path) -> None:
    place.with_name("target").touch()
    place.symlink_to("target")


@pytest.mark.parametrize("make", [os.mkfifo, link, Path.mkdir])
def test_what_is_no_file_is_neither_written_nor_a_change(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """A change that cannot be read is quarantined, and ends no crawl."""
    make(tmp_path / "file.new")
    with pytest.raises(StoreError, match=r"file\.new is not a regular file"):
        write_file(tmp_path / "file", [b"x"])
    (tmp_path / "inbox").mkdir()
    make(tmp_path / "inbox" / "1.msgpack")
    with pytest.raises(ValueError, match=r"1\.msgpack is not a regular file"):
        Inbox(tmp_path).read("1")
