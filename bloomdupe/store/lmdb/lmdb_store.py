"""LmdbStore: a directory that holds everything durable, and its transactions.

Only :class:`LmdbStore` begins and ends transactions.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import lmdb

from bloomdupe.errors import StoreError, StoreIOError
from bloomdupe.store import files
from bloomdupe.store.format import TABLES, damaged
from bloomdupe.store.lmdb.check import check_data, check_format, check_marker
from bloomdupe.store.lmdb.copying import copy_compacted
from bloomdupe.store.lmdb.environment import open_environment, unmappable
from bloomdupe.store.lmdb.lmdb_batch import LmdbBatch
from bloomdupe.store.lmdb.lmdb_snapshot import LmdbSnapshot, unreadable
from bloomdupe.store.lmdb.open_data import OpenData
from bloomdupe.store.store import Commit, Store
from bloomdupe.store.system_errors import explained, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from bloomdupe.errors import StoreDamagedError
    from bloomdupe.store.descriptor import Descriptor
    from bloomdupe.store.format import Ledger, Totals
    from bloomdupe.store.participant import Part


class LmdbStore(Store):
    """A directory with an LMDB environment (0.9 format) and its owner's lock.

    Layout, format 2::

        STORE/              mode 0700
          data.mdb          mode 0600; LMDB
          lock.mdb          LMDB's own
          owner.lock        flock(2) held by the process that writes; its pid, and
                            the last sign of life of a crawl
          store.json        the record ``store`` of data.mdb: tells a store that
                            has lost its data from a place without a store
          clean.json        state of data.mdb after the last transaction, and
                            whether the next commit has begun
          rules.json        rules of the user, which other processes replace, see
                            :class:`bloomdupe.crawl.state.rules.Rules`
          inbox/            requests that other processes leave for the owner, see
                            :mod:`bloomdupe.store.inbox`

    :mod:`bloomdupe.store.format` describes ``data.mdb``. If it differs from
    ``clean.json``, it is checked before LMDB opens it.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        """Open the existing store at ``path``; see :meth:`Directory.open`."""
        self.path = path
        self.shown = str(path)
        self.readonly = readonly
        self._file = str(path / files.DATA)
        self._pid = os.getpid()
        self._lock: Descriptor | None = None
        self._reader: LmdbSnapshot | None = None
        self._failure: StoreError | None = None
        if not readonly:
            files.check_file_system(path)
        if not readonly:
            self._lock = files.lock_owner(path)
        with contextlib.ExitStack() as undo:
            undo.callback(self._unlock)
            self._data = OpenData(path)
            check_data(path, owned=not readonly)
            # LMDB's own lock file is in use from the first owner on.
            locked = (path / files.OWNER).exists()
            if locked:
                files.make_lock_file(path)
            self._env = open_environment(path, readonly=readonly, lock=locked)
            undo.callback(self._env.close)
            self._tables = {one: self._env.open_db(one, create=False) for one in TABLES}
            with self.snapshot() as snapshot:
                self.header = check_format(path, snapshot.record("store"))
                self._ledger = snapshot.ledger()
            check_marker(path, self.header)
            if not readonly:
                if not (path / files.MARKER).exists():
                    files.write_marker(path, self.header)
                self._env.reader_check()
                self._data.begin_marking(self._ledger.transaction)
            undo.pop_all()

    def close(self) -> None:
        """Release the store. Nothing is written to the data."""
        self._end_reader()
        self._env.close()
        self._data.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # Reading

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[LmdbSnapshot]:
        """Read the last commit."""
        try:
            with self._env.begin(buffers=True) as txn:
                yield LmdbSnapshot(txn, self._tables, self._file)
        except lmdb.Error as error:
            raise unreadable(self._file, error) from error

    @property
    def now(self) -> LmdbSnapshot:
        """The last commit, in a transaction that is kept until the next one.

        A transaction for each read would cost more than reading a request or a page.
        """
        if self._reader is None:
            try:
                txn = self._env.begin(buffers=True)
            except lmdb.Error as error:
                raise unreadable(self._file, error) from error
            self._reader = LmdbSnapshot(txn, self._tables, self._file)
        return self._reader

    def _end_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.end()

    def damaged(self, what: str) -> StoreDamagedError:
        """Return the error for damaged data; ``what`` describes the damage."""
        return damaged(str(self.path / files.DATA), what)

    def disk_bytes(self) -> int:
        """Bytes that the data file takes on disk."""
        with explained(f"cannot look at the store {self.path}", self.path):
            return (self.path / files.DATA).stat().st_blocks * 512

    def free_bytes(self) -> int:
        """Bytes that are free on the disk."""
        with explained(f"cannot look at the store {self.path}", self.path):
            disk = os.statvfs(self.path)
            return disk.f_bavail * disk.f_frsize

    def beat(self, moment: float) -> None:
        """Show readers that the owner is alive; the data are not touched."""
        if self._lock is not None:
            files.beat(self._lock, moment)

    @property
    def totals(self) -> Totals:
        """Records and sums of each table, as of the last transaction."""
        return self._ledger.totals

    # Writing

    def begin(self, *parts: Part) -> Commit:
        """Begin a commit. Sending it writes all parts in one durable transaction."""

        def write(txn: lmdb.Transaction) -> Ledger:
            batch = LmdbBatch(txn, self._tables, self._ledger.totals)
            for part in parts:
                part.apply(batch)
            return batch.seal()

        return Commit(parts, lambda: self._transact(write))

    def _transact(self, write: Callable[[lmdb.Transaction], Ledger]) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.path} was opened by process {self._pid}; a forked child must"
                " not write to it"
            )
        if self._failure is not None:
            raise self._failure
        self._end_reader()  # otherwise the pages that it reads could not be used again
        try:
            self._data.expect_same()
            self._ledger = self._committed(write)
            self._data.written(self._ledger.transaction)
        except StoreIOError as error:
            # No later sync restores the pages that a failed sync has dropped.
            self._failure = error
            raise

    def _committed(self, write: Callable[[lmdb.Transaction], Ledger]) -> Ledger:
        while True:
            try:
                with self._env.begin(write=True) as txn:
                    ledger = write(txn)
                    self._data.begin_commit(self._ledger.transaction)
            except lmdb.MapFullError:
                self._grow_map()
            except lmdb.Error as error:
                # Not a kill: the next process checks the file if it has changed.
                self._data.mark(self._ledger.transaction)
                what = f"cannot write to {self._file}"
                then = "the last checkpoint stands"
                raise failed(what, self.path, error, then) from error
            else:
                return ledger

    def _grow_map(self) -> None:
        size = 2 * int(self._env.info()["map_size"])
        try:
            self._env.set_mapsize(size)
        except (lmdb.Error, MemoryError) as error:
            raise unmappable(self.path, size) from error

    def copy(self, target: Path, *, without: Collection[bytes] = ()) -> int:
        """See :meth:`Store.copy`: it is made beside its place, and renamed."""
        if target.exists():
            raise StoreError(f"{target} exists; name a new place for the copy")
        building = target.with_name(target.name + ".creating")
        with explained(f"cannot copy {self.path} to {target}", target.parent):
            files.delete_unfinished(building)
            building.mkdir(mode=0o700, parents=True)
            size = int(self._env.info()["map_size"])
            with self.snapshot() as snapshot:
                left_out = copy_compacted(
                    snapshot, building, self.header, size, without
                )
            files.copy_file(self.path / files.RULES, building / files.RULES)
            building.rename(target)
            files.sync_directory(target.parent)
        return left_out
