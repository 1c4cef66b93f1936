"""RulesFile: the rules of a job on disk, in a file that verbs replace.

A run only reads the file, at each checkpoint, if it has changed. So nothing of it has
to be durable together with anything else: a verb that is killed, or a power cut, leaves
the old rules or the new ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import TYPE_CHECKING

from bloomdupe.crawl.state.rules import Rules
from bloomdupe.errors import StoreError
from bloomdupe.store import files
from bloomdupe.store.descriptor import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MOST_BYTES = 1 << 20


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
            raise self._refused(error) from error
        with open(fd, "rb") as file:  # noqa: PTH123
            self._state = _state_of(os.fstat(fd))
            try:
                text = file.read(MOST_BYTES + 1)
                if len(text) > MOST_BYTES:
                    raise ValueError(f"it has more than {MOST_BYTES:,} bytes")  # noqa: TRY301
                return Rules.read(text)
            except (OSError, ValueError, RecursionError) as error:
                raise self._refused(error) from error

    def changed(self) -> Rules | None:
        """Return the rules if the file is not as it was at the last call; else None.

        So a bad file is an error once.
        """
        try:
            state = _state_of(self._place.lstat())
        except FileNotFoundError:
            state = None
        except OSError as error:
            raise self._refused(error) from error
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
        try:
            with _locked(self._store):
                rules = changed(self.read())
                text = (json.dumps(rules.values, indent=1) + "\n").encode()
                if len(text) > MOST_BYTES:
                    raise StoreError(
                        f"{self._place} would have more than {MOST_BYTES:,} bytes"
                    )
                files.write_file(
                    self._place, [text], before=lambda new: files.give(new, owner)
                )
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            why = error.strerror or error
            raise StoreError(f"cannot write {self._place}: {why}") from error
        return rules

    def _refused(self, error: Exception) -> StoreError:
        why = getattr(error, "strerror", None) or error
        return StoreError(
            f"cannot read {self._place}: {why}; correct it, or delete it: then nothing"
            " is blocked or paused"
        )


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
