"""Restore: a backup in the place of a store."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from bloomdupe.errors import StoreError, StoreLockedError
from bloomdupe.store import files
from bloomdupe.store.copying import ignored
from bloomdupe.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def restore(
    backup: Path,
    target: Path,
    *,
    replace: bool = False,
    progress: Callable[[int], None] = ignored,
) -> Path | None:
    """Put a copy of the store ``backup`` where ``target`` is to be.

    The backup is checked first. A store that is there already is refused, or, with
    ``replace``, moved aside; returns where to. ``progress`` is called with numbers of
    bytes.
    """
    there = target.exists() and any(target.iterdir())
    if there and not replace:
        raise StoreError(
            f"{target} is there already: --replace moves it aside; nothing is deleted"
        )
    if there and files.in_use(target):
        raise StoreLockedError(f"{target} is in use; wait for its owner or stop it")
    building = target.with_name(target.name + files.RESTORING)
    files.delete_unfinished(building)
    files.make_directory(target.parent)
    source = Store.open(backup, readonly=True, network=True)
    try:
        source.copy(building, progress=progress)
    finally:
        source.close()
    aside = None
    if there:
        names = (f"{target.name}.replaced-{number}" for number in itertools.count(1))
        aside = next(p for n in names if not (p := target.with_name(n)).exists())
        target.rename(aside)
    elif target.exists():
        target.rmdir()
    building.rename(target)
    files.sync_directory(target.parent)
    return aside
