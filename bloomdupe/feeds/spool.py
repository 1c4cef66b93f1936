"""Spool: the directory of a job for feeds that are not delivered yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Spool", "placed", "spool_of", "stored"]


@dataclass(frozen=True)
class Spool:
    """The directory of a job for feeds that are not delivered yet; it is private."""

    directory: Path
    dump: Callable[[object], bytes]
    """Returns an item as bytes, for an exporter that cannot be interrupted."""
    load: Callable[[bytes], object]
    """Returns the item again."""

    def place(self, name: str) -> Path:
        """Return the path of a file."""
        return self.directory / name


def spool_of(store: Path) -> Path:
    """Return the spool's directory for a store."""
    return store.with_name(f"{store.name}.feeds")


def stored(file: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the record of a file for the store.

    A file in the spool has only its name there, and ``spooled``, because a job may be
    moved.
    """
    path = Path(file["path"])
    if path.parent != directory:
        return file
    return {**file, "path": path.name, "spooled": True}


def placed(file: dict[str, Any], directory: Path) -> dict[str, Any]:
    """Return the record of a file with its present path."""
    if not file.get("spooled"):
        return file
    return {**file, "path": str(directory / file["path"])}
