"""Places: where the store of a job is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.store import files
from bloomdupe.store.format import MAGIC
from bloomdupe.store.lmdb.directory import Directory
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.store.store import StorePlace


def place_of(path: Path) -> StorePlace:
    """Return the place of the store that belongs to a directory."""
    return Directory(path)


def is_marked(path: Path) -> bool:
    """Whether a directory is itself a store of ours, even if its data is lost."""
    with explained(f"cannot look for a store at {path}", path):
        marker = files.read_marker(path)
    return marker is not None and marker.get("magic") == MAGIC
