"""Copying: a compacted copy of a store, with all of it or without its secrets.

LMDB's own copies take whole pages. A page is rarely full, and LMDB leaves the old
content of the memory in the rest of it: pieces of removed records, also of other
databases. If a compacted copy has its cookies removed and is compacted once more, it
still holds pieces of them (``tests/crawl/test_cookies.py`` shows it). So a store that
has ever had cookies is copied record by record, into pages that were zero before.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from bloomdupe.store import files
from bloomdupe.store.batch import Batch
from bloomdupe.store.environment import open_databases, open_environment
from bloomdupe.store.format import COOKIES
from bloomdupe.store.platform import sync
from bloomdupe.store.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path
    from typing import TypeAlias

    import lmdb

    Progress: TypeAlias = Callable[[int], None]

BATCH_BYTES = 16 << 20
"""Bytes of a transaction when records are copied."""

LOOK = 0.5
"""Seconds between two looks at a growing copy."""

Records = list[tuple[bytes, bytes]]


def ignored(_: int) -> None:
    """Ignore the progress."""


def copy_compacted(
    env: lmdb.Environment,
    source: Path,
    directory: Path,
    header: dict[str, Any],
    without: Collection[bytes] = (),
    progress: Progress = ignored,
) -> int:
    """Write a compacted copy of the store ``source`` into a directory, with its marker.

    It is the last commit. A store in which records are missing is refused. The
    databases ``without`` are left out; returns the number of their records. Other
    processes may read and write ``env`` meanwhile. ``progress`` is called with numbers
    of bytes, as the copy grows.
    """
    left_out = 0
    data = directory / files.DATA
    with _growth(data, progress):
        _copy_data(env, directory, without)
    data.chmod(0o600)
    # LMDB numbers the transactions of a copy anew.
    with open_environment(directory, lock=False) as copy:
        databases = open_databases(copy)
        with copy.begin() as txn:
            snapshot = Snapshot(txn, databases, str(source / files.DATA))
            ledger = snapshot.ledger()
            totals = {n: t for n, t in ledger.totals.items() if n not in without}
            for name in totals.keys() - {b"meta"}:
                snapshot.expect_all(name.decode(), totals[name][0])
        with copy.begin(write=True) as txn:
            batch = Batch(txn, databases, totals)
            left_out = sum(ledger.totals.get(name, [0])[0] for name in without)
            if left_out and COOKIES in without:
                batch.note_cookies_left_out(left_out)
            batch.seal()
    with data.open("rb") as file:
        sync(file.fileno())
    files.write_marker(directory, header)
    return left_out


@contextmanager
def _growth(data: Path, progress: Progress) -> Iterator[None]:
    """Report how a file grows that LMDB writes in a single call."""
    done = Event()

    reported = 0

    def report() -> None:
        nonlocal reported
        size = data.stat().st_size if data.exists() else 0
        progress(size - reported)
        reported = size

    def watch() -> None:
        while not done.wait(LOOK):
            report()

    thread = Thread(target=watch, name="bloomdupe copy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    report()


def _copy_data(
    env: lmdb.Environment, directory: Path, without: Collection[bytes]
) -> None:
    if COOKIES not in open_databases(env):
        # As bytes, which py-lmdb takes and its types do not know: any name works.
        env.copy(os.fsencode(directory), compact=True)  # type: ignore[arg-type]
        with open_environment(directory, lock=False) as copy:
            if COOKIES not in open_databases(copy):
                return
        # Another process has added cookies just now.
        (directory / files.DATA).unlink()
    databases = open_databases(env)
    with open_environment(directory, lock=False) as copy, env.begin() as snapshot:
        copy.set_mapsize(2 * env.info()["map_size"])
        for name, database in databases.items():
            if name in without:
                continue
            copied = copy.open_db(name)
            with snapshot.cursor(database) as records:
                for batch in _batches(records):
                    with copy.begin(write=True) as txn, txn.cursor(copied) as cursor:
                        cursor.putmulti(batch, append=True)


def _batches(records: lmdb.Cursor) -> Iterator[Records]:
    batch: Records = []
    size = 0
    for key, value in records:
        batch.append((bytes(key), bytes(value)))
        size += len(key) + len(value)
        if size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    yield batch
