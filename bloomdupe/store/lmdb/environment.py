"""Environment: LMDB's, opened as a store needs it, and built."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import lmdb

from bloomdupe.errors import StoreError
from bloomdupe.store import files
from bloomdupe.store.format import FORMAT, MAGIC, TABLES
from bloomdupe.store.lmdb.lmdb_batch import LmdbBatch
from bloomdupe.store.lmdb.open_data import OpenData
from bloomdupe.store.system_errors import limit_of_memory

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
        f" {limit_of_memory()}; raise it"
    )


def build(building: Path, records: dict[str, dict[str, Any]]) -> None:
    """Fill a new environment, close it, and mark it as sound."""
    files.make_lock_file(building)
    head = {"magic": MAGIC, "format": FORMAT}
    records = {**records, "store": head | records["store"]}
    env = open_environment(building)
    try:
        with env.begin(write=True) as txn:
            tables = {name: env.open_db(name, txn) for name in TABLES}
            batch = LmdbBatch(txn, tables)
            for name, record in records.items():
                batch.put_record(name, record)
            ledger = batch.seal()
    finally:
        env.close()
    files.write_marker(building, records["store"])
    data = OpenData(building)
    data.begin_marking(ledger.transaction)
    data.close()
