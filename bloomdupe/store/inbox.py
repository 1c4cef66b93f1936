"""Inbox: the directory in which other processes leave requests for a running crawl.

Each message is a file, ``inbox/TIME-PROCESS-RANDOM.msgpack``, with an array of packed
requests: written under a name that ends in ``.new``, synced and renamed, so the owner
sees all of it or nothing. The names are in the order of the messages. The owner makes
the requests durable together with the name, in the notes of the filter, and only then
deletes the file. So a crash at any instant leaves either a message that is not taken
in, or a file with a name that is recorded, and each message is taken in once.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from shutil import copyfile
from typing import TYPE_CHECKING

import msgpack  # type: ignore[import-untyped]

from bloomdupe.store.files import (
    give,
    identify,
    open_regular,
    sync_directory,
    write_file,
)
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "inbox"
SUFFIX = ".msgpack"
UNREADABLE = ".unreadable"


class Inbox:
    """The inbox of the store at ``path``."""

    def __init__(self, path: Path) -> None:
        self._store = path
        self._folder = path / FOLDER

    def post(self, requests: list[bytes]) -> str:
        """Leave a message for the owner; return its name."""
        name = f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}"
        place = self._place(name)
        with explained(f"cannot write {place}", self._store):
            identify(self._store)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            give(self._folder)
            sync_directory(self._store)
            write_file(place, [msgpack.packb(requests)])
        return name

    def names(self) -> list[str]:
        """Return the names of the messages, the oldest first."""
        found: list[str] = []
        absent = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with explained(f"cannot read {self._folder}", self._store), absent:
            found = os.listdir(self._folder)  # noqa: PTH208 - quicker, and often called
        return sorted(one.removesuffix(SUFFIX) for one in found if one.endswith(SUFFIX))

    def copy_to(self, store: Path) -> None:
        """Copy the messages to the inbox of a copy of the store, before its records.

        A message that the owner takes in meanwhile is among the records.
        """
        folder = store / FOLDER
        folder.mkdir(mode=0o700)
        for name in self.names():
            with contextlib.suppress(FileNotFoundError):
                copyfile(self._place(name), folder / f"{name}{SUFFIX}")

    def read(self, name: str) -> list[bytes]:
        """Return a message; raises :class:`ValueError` if it cannot be read."""
        try:
            with open(open_regular(self._place(name)), "rb") as file:
                return [*msgpack.unpackb(file.read())]
        except Exception as error:
            raise ValueError(f"it cannot be read: {error}") from error

    def remove(self, name: str) -> None:
        """Delete a message, durably: it may not come back."""
        with explained(f"cannot empty {self._folder}", self._store):
            self._place(name).unlink(missing_ok=True)
            sync_directory(self._folder)

    def quarantine(self, name: str) -> Path:
        """Keep a message that cannot be read under another name; return its path."""
        place = self._place(name)
        quarantined = place.with_suffix(UNREADABLE)
        with contextlib.suppress(FileNotFoundError):
            place.rename(quarantined)
        return quarantined

    def _place(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"
