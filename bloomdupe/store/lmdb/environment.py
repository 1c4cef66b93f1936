"""Environment: LMDB's, opened as a store needs it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import lmdb

from bloomdupe.errors import StoreError
from bloomdupe.store import files
from bloomdupe.store.format import TABLES
from bloomdupe.store.system_errors import ADDRESSES

if TYPE_CHECKING:
    from pathlib import Path

MAP_BYTES = 1 << 30
"""Address space at first; doubled whenever a batch does not fit."""


def open_environment(
    path: Path, *, readonly: bool = False, lock: bool = True
) -> lmdb.Environment:
    """Open the environment in the directory ``path``, or create one."""
    size = (path / files.DATA).stat().st_size if (path / files.DATA).exists() else 0
    size = max(MAP_BYTES, 2 * size)
    try:
        return lmdb.open(
            os.fsencode(path),
            map_size=size,
            readonly=readonly,
            lock=lock,
            # A crawl reads pages at random, and would fetch unused ones. A verb mostly
            # reads whole databases, ten times as fast if they are not in memory.
            readahead=readonly,
            max_dbs=len(TABLES),
            mode=0o600,
            lib_version=0,
        )
    except (lmdb.MemoryError, MemoryError) as error:
        raise unmappable(path, size) from error


def unmappable(path: Path, size: int) -> StoreError:
    """Return the error that says why so many bytes cannot be mapped."""
    return StoreError(
        f"cannot map {size:,} bytes of address space for {path / files.DATA}:"
        f" raise {ADDRESSES}"
    )
