"""RulesFile: the rules of a job on disk, in a file that verbs replace.

A run only reads the file, at each checkpoint, if it has changed. So nothing of it has
to be durable together with anything else: a verb that is killed, or a power cut, leaves
the old rules or the new ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from bloomdupe.crawl.state.rules import MOST_BYTES, Rules, refused
from bloomdupe.errors import StoreError
from bloomdupe.store import files
from bloomdupe.store.descriptor import open_regular
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class RulesFile:
    """The file ``rules.json`` of the store at ``path``: a :class:`Rules` as JSON.

    All methods raise :class:`~bloomdupe.errors.StoreError` if the file cannot be read,
    or holds anything but rules.
    """

    def __init__(self, path: Path) -> None:
        self._store = path
        self._place = path / files.RULES
        self._state: object = None
        """How the file was when it was last read; None: there was none."""

    def read(self) -> Rules:
        """Return the rules; no file has none."""
        try:
            self._state = None
            fd = open_regular(self._place)
        except FileNotFoundError:
            return Rules()
        except StoreError:
            raise
        except OSError as error:
            raise refused(self._place, error) from error
        with open(fd, "rb") as file:  # noqa: PTH123
            self._state = _state_of(os.fstat(fd))
            try:
                text = file.read(MOST_BYTES + 1)
            except OSError as error:
                raise refused(self._place, error) from error
        return Rules.read(text, self._place)

    def changed(self) -> Rules | None:
        """Return the rules if the file is not as it was at the last call; else None.

        So a bad file is an error once.
        """
        try:
            state = _state_of(self._place.lstat())
        except FileNotFoundError:
            state = None
        except OSError as error:
            raise refused(self._place, error) from error
        if state == self._state:
            return None
        try:
            return self.read()
        except StoreError:
            self._state = state
            raise

    def change(self, changed: Callable[[Rules], Rules]) -> Rules:
        """Replace the file by what ``changed`` makes of its rules, and return those.

        Processes that change it at the same time do so one after another.
        """
        owner = files.identify(self._store)
        what = f"cannot write {self._place}"
        with explained(what, self._store), _locked(self._store):
            rules = changed(self.read())
            files.write_file(self._place, [rules.written(self._place)], owner=owner)
        return rules


def _state_of(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock a directory against other processes that lock it."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
