"""Copying: a compacted copy of a store, with all of it or without its secrets.

It is made record by record, and not by LMDB. LMDB copies whole pages. A page is rarely
full, and the rest of it has the old content of the memory: pieces of removed records,
also of other tables, so a copy without cookies would still hold pieces of them
(``tests/crawl/test_cookies.py`` shows it). Here the pages were zero before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from bloomdupe.store import files
from bloomdupe.store.format import TABLES
from bloomdupe.store.lmdb.environment import open_environment
from bloomdupe.store.lmdb.lmdb_batch import LmdbBatch
from bloomdupe.store.platform import sync
from bloomdupe.store.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from bloomdupe.store.lmdb.lmdb_snapshot import LmdbSnapshot


Value = TypeVar("Value", bytes, memoryview)

BATCH_BYTES = 16 << 20
"""Bytes of a transaction when records are copied."""


def copy_compacted(
    snapshot: LmdbSnapshot,
    directory: Path,
    header: dict[str, Any],
    map_size: int,
    without: Collection[bytes] = (),
) -> int:
    """Write a compacted copy of a store into a directory, with its marker.

    A store in which records are missing is refused. The tables ``without`` are left
    out; returns the number of their records. Other processes may read and write the
    store meanwhile. ``map_size`` is the address space that its file needs at most.
    """
    ledger = snapshot.ledger()
    totals = {n: t for n, t in ledger.totals.items() if n not in without}
    left_out = sum(ledger.totals.get(name, [0])[0] for name in without)
    data = directory / files.DATA
    progress = Progress(f"Writing {data}", None, "MB", scale=10**6)
    with open_environment(directory, lock=False) as copy:
        copy.set_mapsize(map_size)
        tables = {name: copy.open_db(name) for name in TABLES}
        for name in TABLES:
            if name in without:
                continue
            for records, size in portions(snapshot.values(name), BATCH_BYTES):
                with copy.begin(write=True) as txn, txn.cursor(tables[name]) as cursor:
                    cursor.putmulti(records, append=True)
                progress.passed(size)
        with copy.begin(write=True) as txn:
            LmdbBatch(txn, tables, totals).seal()
    data.chmod(0o600)
    with data.open("rb") as file:
        sync(file.fileno())
    files.write_marker(directory, header)
    return left_out


def portions(
    records: Iterable[tuple[bytes, Value]], most: int
) -> Iterator[tuple[list[tuple[bytes, Value]], int]]:
    """Yield records in portions of about ``most`` bytes, each with its bytes."""
    portion: list[tuple[bytes, Value]] = []
    size = 0
    for key, value in records:
        portion.append((key, value))
        size += len(key) + len(value)
        if size > most:
            yield portion, size
            portion, size = [], 0
    if portion:
        yield portion, size
