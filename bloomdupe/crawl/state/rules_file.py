"""The file ``rules.json`` of a store, which verbs replace, and a run only reads.

So nothing of it has to be durable together with anything else: a verb that is killed,
or a power cut, leaves the old rules or the new ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from bloomdupe.crawl.state.rules import MOST_BYTES, Rules, refused
from bloomdupe.store import files
from bloomdupe.store.descriptor import open_regular
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def text_of_rules(store: Path) -> bytes | None:
    """Return what is in the file, or the beginning if it is too large; None: no file.

    Raises :class:`~bloomdupe.errors.StoreError` if it cannot be read.
    """
    place = store / files.RULES
    try:
        with open(open_regular(place), "rb") as file:  # noqa: PTH123
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise refused(place, error) from error


def rules_of(store: Path) -> Rules:
    """Return the rules of a store; raises :class:`~bloomdupe.errors.StoreError`."""
    return Rules.read(text_of_rules(store), store / files.RULES)


def change_rules(store: Path, changed: Callable[[Rules], Rules]) -> Rules:
    """Replace the file by what ``changed`` makes of its rules, and return those.

    Processes that change it at the same time do so one after another.
    """
    files.identify(store)
    place = store / files.RULES
    with explained(f"cannot write {place}", store), _locked(store):
        rules = changed(rules_of(store))
        files.write_file(place, [rules.written(place)])
    return rules


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock a directory against other processes that lock it."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
