"""LmdbStore: a directory that holds everything durable, and its transactions."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any

import lmdb

from bloomdupe.errors import StoreError, StoreIOError
from bloomdupe.store import files
from bloomdupe.store.format import FORMAT, MAGIC, META, TABLES, meta_records
from bloomdupe.store.inbox import Inbox
from bloomdupe.store.lmdb.check import check_data, check_format
from bloomdupe.store.lmdb.environment import (
    LmdbSnapshot,
    open_environment,
    portions,
    unmappable,
    unreadable,
    write_parts,
)
from bloomdupe.store.lmdb.open_data import OpenData
from bloomdupe.store.platform import existing, free_bytes
from bloomdupe.store.store import Commit, Part, Store
from bloomdupe.store.system_errors import explained, failed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from bloomdupe.store.format import Sums

MEANWHILE = (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY)
"""What goes wrong if another process has made a store meanwhile."""
BATCH_BYTES = 16 << 20
"""Bytes of a transaction when records are copied."""


class LmdbStore(Store):
    """A directory with an LMDB environment (0.9 format) and its owner's lock.

    Layout, format 5::

        STORE/              mode 0700
          data.mdb          mode 0600; LMDB
          lock.mdb          LMDB's own
          owner.lock        flock(2) held by the process that writes; its pid, and
                            the last heartbeat of a crawl
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
        self._reader: LmdbSnapshot | None = None
        self._failure: StoreError | None = None
        if not readonly:
            files.check_file_system(path)
        with contextlib.ExitStack() as undo:
            if not readonly:
                self._lock = undo.enter_context(files.lock_owner(path))
            self._data = OpenData(path)
            undo.callback(self._data.close)
            check_data(path, owned=not readonly)
            # LMDB's own lock file is in use from the first owner on.
            locked = (path / files.OWNER).exists()
            if locked:
                files.make_lock_file(path)
            self._env = undo.enter_context(
                open_environment(path, readonly=readonly, lock=locked)
            )
            self._tables = {one: self._env.open_db(one, create=False) for one in TABLES}
            with self.snapshot() as snapshot:
                self.header = check_format(path, snapshot.record("store"))
                self._ledger = snapshot.ledger()
            if not readonly:
                self._env.reader_check()
                self._data.begin_marking(self.header, self._ledger["transaction"])
            self._opened = undo.pop_all()

    def close(self) -> None:
        """Release the store. Nothing is written to the data."""
        self._end_reader()
        self._opened.close()

    # Reading

    def snapshot(self) -> contextlib.closing[LmdbSnapshot]:
        """Read the last commit."""
        return contextlib.closing(self._begin_reading())

    def _begin_reading(self) -> LmdbSnapshot:
        try:
            txn = self._env.begin(buffers=True)
        except lmdb.Error as error:
            raise unreadable(self._file, error) from error
        return LmdbSnapshot(txn, self._tables, self._file)

    @property
    def now(self) -> LmdbSnapshot:
        """The last commit, in a transaction that is kept until the next one.

        A transaction for each read would cost more than reading a request or a page.
        """
        if self._reader is None:
            self._reader = self._begin_reading()
        return self._reader

    def _end_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def disk_bytes(self) -> int:
        """Bytes that the data file takes on disk."""
        with explained(f"cannot look at the store {self.path}", self.path):
            return (self.path / files.DATA).stat().st_blocks * 512

    def free_bytes(self) -> int:
        """Bytes that are free on the disk."""
        with explained(f"cannot look at the store {self.path}", self.path):
            return free_bytes(self.path)

    def heartbeat(self, moment: float) -> None:
        """Show readers that the owner is alive; the data are not touched."""
        files.write_heartbeat(self._lock, moment)

    # Writing

    def begin(self, *parts: Part) -> Commit:
        """Begin a commit. Sending it writes all parts in one durable transaction."""
        return Commit(parts, lambda: self._send(parts))

    def _send(self, parts: Iterable[Part]) -> None:
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
            self._ledger = self._committed(parts)
            self._data.written(self._ledger["transaction"])
        except StoreIOError as error:
            # No later sync restores the pages that a failed sync has dropped.
            self._failure = error
            raise

    def _committed(self, parts: Iterable[Part]) -> dict[str, Any]:
        before = self._ledger
        while True:
            try:
                with self._env.begin(write=True) as txn:
                    ledger = write_parts(txn, self._tables, parts, before["sums"])
                    self._data.begin_commit(before["transaction"])
            except lmdb.MapFullError:
                self._grow_map()
            except lmdb.Error as error:
                # Not a kill: the next process checks the file if it has changed.
                self._data.mark(before["transaction"])
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
        """Copy the store: the copy is made beside its place, and renamed.

        LMDB itself would copy whole pages, with pieces of removed records in their
        unused bytes: also of cookies. So it is made record by record. A store in which
        records are missing is refused.
        """
        if target.exists():
            raise StoreError(f"{target} exists; name a new place for the copy")
        building = target.with_name(target.name + ".creating")
        with explained(f"cannot copy {self.path} to {target}", target.parent):
            files.delete_unfinished(building)
            building.mkdir(mode=0o700, parents=True)
            Inbox(self.path).copy_to(building)
            with (
                self.snapshot() as snapshot,
                open_environment(building, lock=False) as copy,
            ):
                # Each transaction needs pages besides those that it replaces.
                copy.set_mapsize(2 * int(self._env.info()["map_size"]))
                tables = {name: copy.open_db(name) for name in TABLES}
                sums: Sums = snapshot.ledger()["sums"]
                left_out = sum(snapshot.entries(name) for name in without)
                for name in without:
                    sums.pop(name.decode(), None)
                for name in (one for one in TABLES if one not in without):
                    for records, _ in portions(snapshot.values(name), BATCH_BYTES):
                        with (
                            copy.begin(write=True) as txn,
                            txn.cursor(tables[name]) as cursor,
                        ):
                            cursor.putmulti(records, append=True)
                with copy.begin(write=True) as txn:
                    write_parts(txn, tables, (), sums)
            with contextlib.suppress(FileNotFoundError):
                fd = files.open_regular(self.path / files.RULES)
                with open(fd, "rb") as file:
                    files.write_file(building / files.RULES, file)
            files.put_directory(building, target)
        return left_out


class Directory:
    """A directory that holds a store, or can hold one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown = str(path)

    def exists(self) -> bool:
        """Whether there is a store to open; refuses anything else that is there.

        A missing or empty directory counts as no store.
        """
        path = self.path
        with explained(f"cannot look for a store at {path}", path):
            if not path.exists() and not path.is_symlink():
                return False
            if not path.is_dir():
                raise StoreError(
                    f"{path} is not a directory, so it cannot be a bloomdupe store;"
                    " move it away or name another place"
                )
            if files.holds_store(path):
                files.identify(path)
                return True
            if any(path.iterdir()):
                raise StoreError(
                    f"{path} holds other files but no {files.DATA}: it is not a"
                    " bloomdupe store; move it away or name another place"
                )
        return False

    def open(self, *, readonly: bool = False) -> LmdbStore:
        """Open the store that is there, after a check if it was not closed well.

        ``readonly`` takes no lock, and reads the last commit even while another process
        writes.
        """
        with explained(f"cannot open the store {self.path}", self.path):
            return LmdbStore(self.path, readonly=readonly)

    def create(self, records: dict[str, dict[str, Any]]) -> LmdbStore:
        """Create a store with these records, among them ``store``, and open it.

        It is built beside its place and renamed, so a crash at any instant leaves
        either no store or a complete store. The store of a process that was quicker is
        opened.
        """
        path = self.path
        building = path.with_name(path.name + ".creating")
        with explained(f"cannot create a store at {path}", path):
            files.check_file_system(path)
            files.make_directory(path.parent)
            files.delete_unfinished(files.removed_name(path))
            files.refuse_link(building)
            building.mkdir(mode=0o700, exist_ok=True)
            try:
                with files.lock_owner(building):
                    for leftover in building.iterdir():
                        if leftover.name != files.OWNER:
                            leftover.unlink()
                    _build(building, records)
                    files.put_directory(building, path)
            except OSError as error:
                if error.errno not in MEANWHILE or not self.exists():
                    raise
                with contextlib.suppress(OSError):
                    files.delete_unfinished(building)
        return self.open()

    def room(self) -> tuple[int, str]:
        """Return how many bytes a new store could take, and of what they are."""
        with explained(f"cannot look at {self.path}", self.path):
            return free_bytes(self.path), f"disk free at {existing(self.path)}"


def _build(building: Path, records: dict[str, dict[str, Any]]) -> None:
    """Fill a new environment, close it, and mark it as sound."""
    header = {"magic": MAGIC, "format": FORMAT, **records["store"]}
    everything = meta_records({**records, "store": header})
    with (
        open_environment(building, lock=False) as env,
        env.begin(write=True) as txn,
    ):
        tables = {name: env.open_db(name, txn) for name in TABLES}
        ledger = write_parts(txn, tables, [Part(changes={META: everything})], {})
    data = OpenData(building)
    data.begin_marking(header, ledger["transaction"])
    data.close()
