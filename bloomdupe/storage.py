"""Storage: the directory that holds everything durable, and its transactions.

Only :class:`Store` begins and ends transactions.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import lmdb

from bloomdupe import place
from bloomdupe.batch import Batch
from bloomdupe.check import Report, check
from bloomdupe.datafile import NotLmdbError
from bloomdupe.errors import (
    StoreDamagedError,
    StoreError,
    StoreIOError,
    StoreMismatchError,
)
from bloomdupe.failures import failed, limit_of_memory
from bloomdupe.format import (
    DATABASES,
    FORMAT,
    FRONTIER_FORMAT,
    MAGIC,
    OPTIONAL_DATABASES,
    Ledger,
    damaged,
)
from bloomdupe.place import DATA, OWNER
from bloomdupe.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from pathlib import Path

    from typing_extensions import Self

    from bloomdupe.format import Totals

__all__ = ["Change", "Store"]

logger = logging.getLogger(__name__)

MAP_BYTES = 1 << 30
"""Address space at first; doubled whenever a batch does not fit."""

PATIENCE = 1.0
"""Seconds after which the log says that a store is being checked; then again after
ten times as long."""


class Change(Protocol):
    """Something that belongs in the next transaction.

    ``write`` may be called several times (when the map must grow) and must not
    change its own object; ``done`` is called once, after the commit.
    """

    def write(self, batch: Batch) -> None:
        """Put everything into the transaction."""

    def done(self) -> None:
        """Take note that it is durable."""


class Store:
    """A directory with an LMDB environment (0.9 format) and its owner's lock.

    Layout, format 1::

        STORE/              mode 0700
          data.mdb          mode 0600; LMDB
          lock.mdb          LMDB's own
          owner.lock        flock(2) held by the process that writes; its pid
          store.json        the record ``store`` of data.mdb: tells a store whose
                            data is gone from a place where there is none yet
          clean.json        what data.mdb was like after the last transaction

    :mod:`bloomdupe.format` says what is in ``data.mdb``. Unless it is still as
    ``clean.json`` says, it is checked before LMDB gets to see it.
    """

    def __init__(
        self, path: Path, *, readonly: bool = False, network: bool = False
    ) -> None:
        """Open the existing store at ``path``; see :meth:`open`."""
        self.path = path
        self.readonly = readonly
        self._place = str(path / DATA)
        self._pid = os.getpid()
        self._lock: int | None = None
        self._reader: Snapshot | None = None
        self._failure: StoreError | None = None
        self._mark: place.MarkFile | None = None
        self._touched = False
        if not (readonly or network):
            place.check_file_system(path)
        if not (path / OWNER).exists():
            # Not opened by us so far: look before leaving files in it.
            self._check()
        if not readonly:
            self._lock = place.lock_owner(path)
        try:
            self._found = place.identify(path)
            report = self._check()
            # LMDB's own lock file is in use from the first owner on.
            locked = (path / OWNER).exists()
            if locked:
                place.make_lock_file(path)
            self._env = _environment(path, readonly=readonly, lock=locked)
            try:
                self._databases = self._open_databases()
                self.header = self._read_header()
                self._ledger = self._read_ledger(report)
                if not readonly:
                    self._env.reader_check()
                    self._mark = place.MarkFile(path)
                    self._mark.write(self._found, self._ledger.transaction)
            except BaseException:
                self._env.close()
                raise
        except BaseException:
            self._unlock()
            raise

    # Life of a store

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether there is a store to open; refuses anything else that is there.

        An empty directory and nothing at all count as no store.
        """
        try:
            return place.store_exists(path)
        except StoreError:
            raise
        except OSError as error:
            raise failed(f"cannot look for a store at {path}", path, error) from error

    @classmethod
    def create(
        cls, path: Path, records: dict[str, dict[str, Any]], *, network: bool = False
    ) -> Self:
        """Create a store with these records, among them ``store``, and open it.

        It is built beside its place and renamed into it, so a crash at any
        instant leaves either no store or a whole one. ``network`` allows a network
        file system.
        """
        building = path.with_name(path.name + ".creating")
        try:
            if not network:
                place.check_file_system(path)
            place.make_directory(path.parent)
            building.mkdir(mode=0o700, exist_ok=True)
            lock = place.lock_owner(building)
            try:
                for leftover in building.iterdir():
                    if leftover.name != OWNER:
                        leftover.unlink()
                _build(building, records)
                building.rename(path)
                place.sync_directory(path.parent)
            finally:
                os.close(lock)
        except StoreError:
            raise
        except (OSError, lmdb.Error) as error:
            raise failed(f"cannot create a store at {path}", path, error) from error
        return cls.open(path, network=network)

    @classmethod
    def open(cls, path: Path, *, readonly: bool = False, network: bool = False) -> Self:
        """Open the store at ``path``, after a check if it was not closed well.

        ``readonly`` takes no lock, and looks at the last commit even while
        another process writes. ``network`` allows a network file system.
        """
        if not cls.exists(path):
            raise StoreError(f"{path}: there is no bloomdupe store")
        try:
            return cls(path, readonly=readonly, network=network)
        except StoreError:
            raise
        except (OSError, lmdb.Error) as error:
            raise failed(f"cannot open the store {path}", path, error) from error

    def close(self) -> None:
        """Release the store. Nothing is written to the data."""
        self._end_reader()
        self._env.close()
        if self._mark is not None:
            self._mark.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    # Trust

    def _check(self) -> Report | None:
        """Check the data unless it is as it was left; None if nothing was checked.

        A store that somebody writes to was checked by that process.
        """
        clean, transaction = place.read_mark(self.path)
        if clean or (self._lock is None and place.in_use(self.path)):
            return None
        progress = _Progress(self.path / DATA)
        try:
            report = check(self.path / DATA, progress.read)
        except NotLmdbError as error:
            raise self.damaged(f"it is not an LMDB file of version 0.9: {error}") from (
                error
            )
        problems = report.problems
        if not (report.is_ours or place.read_marker(self.path)):
            raise StoreMismatchError(
                f"{self._place} is an LMDB file, but not of bloomdupe; name another"
                " place"
            )
        if "store" in report.records or not problems:
            self._check_formats(report.records.get)
        if report.transaction < transaction:
            problems.append(
                f"it is of transaction {report.transaction:,}, but had"
                f" {transaction:,} when it was closed"
            )
        if problems and not (self._lock is None and place.in_use(self.path)):
            more = len(problems) - 1
            raise self.damaged(problems[0] + (f", and {more:,} more" if more else ""))
        return report

    def _open_databases(self) -> dict[bytes, Any]:
        databases = {name: self._env.open_db(name, create=False) for name in DATABASES}
        for name in OPTIONAL_DATABASES:
            with contextlib.suppress(lmdb.NotFoundError):
                databases[name] = self._env.open_db(name, create=False)
        return databases

    def _read_header(self) -> dict[str, Any]:
        with self.snapshot() as snapshot:
            header = self._check_formats(snapshot.record)
        marker = place.read_marker(self.path)
        if marker is None and not self.readonly:
            place.write_marker(self.path, header)
        elif marker is not None and marker != header:
            raise StoreDamagedError(
                f"{self._place} is not the data that {self.path / place.MARKER} belongs"
                " to: it was replaced. Put the right one back; or, if this is the right"
                f" one, delete {place.MARKER}: it is written anew"
            )
        return header

    def _check_formats(
        self, record: Callable[[str], dict[str, Any] | None]
    ) -> dict[str, Any]:
        """Return the record that says what the store is, or refuse the store."""
        header, frontier = record("store"), record("frontier")
        if header is None or header.get("magic") != MAGIC:
            raise StoreMismatchError(
                f"{self._place} has no bloomdupe header; name another place"
            )
        if header["format"] != FORMAT:
            raise StoreMismatchError(
                f"{self.path} has format {header['format']}, this version of"
                f" bloomdupe reads format {FORMAT}; use the version that wrote it"
                f" ({header.get('written_by', 'unknown')})"
            )
        if frontier is not None and frontier.get("format") != FRONTIER_FORMAT:
            written = frontier.get("format", "0 (before the first release)")
            raise StoreMismatchError(
                f"{self.path}: its requests are written in format {written}, this"
                f" version of bloomdupe reads format {FRONTIER_FORMAT}; use the version"
                " that wrote them, or move the store away to start anew"
            )
        return header

    def _read_ledger(self, report: Report | None) -> Ledger:
        with self.snapshot() as snapshot:
            transaction = snapshot.transaction
            ledger = snapshot.ledger()
            if ledger is None:  # from before there was one: count
                if report is None and not self.readonly:
                    report = check(self.path / DATA)
                return Ledger(transaction, report.totals if report else {})
            if ledger.transaction != transaction:
                raise self.damaged(
                    f"the ledger is of transaction {ledger.transaction:,}, the last one"
                    f" was {transaction:,}"
                )
            for name, (records, _) in ledger.totals.items():
                if name != b"meta":
                    snapshot.expect_entries(name.decode(), records)
        return ledger

    def _look(self) -> os.stat_result | None:
        """Look at the data file; None if the open one is not in its place any more."""
        try:
            found = place.identify(self.path)
        except StoreError:
            return None
        before = self._found
        same = (found.st_dev, found.st_ino) == (before.st_dev, before.st_ino)
        return found if same and found.st_size >= before.st_size else None

    def make_room_for(self, *names: bytes) -> None:
        """Add optional databases, if they are not there yet."""
        missing = set(names) - self._databases.keys()
        added: dict[bytes, Any] = {}

        def write(txn: lmdb.Transaction) -> Ledger:
            added.update({name: self._env.open_db(name, txn) for name in missing})
            return Batch(txn, self._databases, self._ledger.totals).seal()

        if missing:
            self._transact(write)
            self._databases |= added

    # Reading

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Read the last commit."""
        try:
            with self._env.begin(buffers=True) as txn:
                yield Snapshot(txn, self._databases, self._place)
        except lmdb.Error as error:
            raise StoreError(f"cannot read {self._place}: {error}") from error

    def requests(
        self, slot: int, after: bytes, but: Container[bytes], limit: int
    ) -> list[tuple[bytes, bytes, int]]:
        """Return the next requests of a slot as of the last commit.

        See :meth:`bloomdupe.format.Snapshot.next_requests`.
        The transaction is kept until the next commit: a new one would cost more than
        reading a request.
        """
        try:
            if self._reader is None:
                txn = self._env.begin(buffers=True)
                self._reader = Snapshot(txn, self._databases, self._place)
            return self._reader.next_requests(slot, after, but, limit)
        except lmdb.Error as error:
            raise StoreError(f"cannot read {self._place}: {error}") from error

    def _end_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.end()

    def damaged(self, what: str) -> StoreDamagedError:
        """Return the error that says ``what`` is wrong with the data."""
        return damaged(str(self.path / DATA), what)

    def disk_bytes(self) -> int:
        """Space that the data file takes on disk."""
        return (self.path / DATA).stat().st_blocks * 512

    @property
    def totals(self) -> Totals:
        """What the last transaction says is in the store."""
        return self._ledger.totals

    # Writing

    def commit(self, *changes: Change) -> None:
        """Write all changes in one durable transaction: all of them, or none.

        If it fails, the last commit stands, nothing was noted as done, and the
        same changes can be committed later.
        """

        def write(txn: lmdb.Transaction) -> Ledger:
            batch = Batch(txn, self._databases, self._ledger.totals)
            for change in changes:
                change.write(batch)
            return batch.seal()

        self._transact(write)
        for change in changes:
            change.done()

    def _transact(self, write: Callable[[lmdb.Transaction], Ledger]) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.path} was opened by process {self._pid}; a forked child must"
                " not write to it"
            )
        if self._failure is not None:
            raise self._failure
        self._end_reader()  # or pages that it sees could not be used again
        found = self._look_again()
        if found.st_mtime_ns != self._found.st_mtime_ns:
            self._touched = True  # somebody else writes to it
        while True:
            try:
                with self._env.begin(write=True) as txn:
                    ledger = write(txn)
                break
            except lmdb.MapFullError:
                self._grow_map()
            except lmdb.Error as error:
                what = f"cannot write to {self._place}"
                failure = failed(what, self.path, error, "the last checkpoint stands")
                if isinstance(failure, StoreIOError):
                    # What a failed sync has dropped, no later one brings back.
                    self._failure = failure
                raise failure from error
        self._found = self._look_again()
        self._ledger = ledger
        if self._mark is not None and not self._touched:
            self._mark.write(self._found, ledger.transaction)

    def _look_again(self) -> os.stat_result:
        """Look at the data file, which must still be ours."""
        try:
            found = self._look()
        except OSError as error:
            what = f"cannot look at {self._place}"
            self._failure = failed(what, self.path, error)
            raise self._failure from error
        if found is None:
            self._failure = StoreIOError(
                f"{self._place} was deleted, replaced or cut short while it was in use,"
                " so nothing can be written to it any more; put it back, or"
                f" `bloomdupe restore BACKUP {self.path}`"
            )
            raise self._failure
        return found

    def _grow_map(self) -> None:
        size = 2 * int(self._env.info()["map_size"])
        try:
            self._env.set_mapsize(size)
        except (lmdb.Error, MemoryError) as error:
            raise _unmappable(self.path, size) from error

    def copy(self, target: Path) -> None:
        """Write a compacted copy of the last commit to the new store ``target``.

        Other processes may read and write meanwhile.
        """
        if target.exists():
            raise StoreError(f"{target} exists; name a new place for the copy")
        building = target.with_name(target.name + ".creating")
        try:
            # What an interrupted call left here is an unfinished copy.
            shutil.rmtree(building, ignore_errors=True)
            building.mkdir(mode=0o700, parents=True)
            self._copy_data(building)
            building.rename(target)
            place.sync_directory(target.parent)
        except (OSError, lmdb.Error) as error:
            what = f"cannot copy {self.path} to {target}"
            raise failed(what, target.parent, error) from error

    def _copy_data(self, directory: Path) -> None:
        self._env.copy(str(directory), compact=True)
        (directory / DATA).chmod(0o600)
        # LMDB numbers the transactions of a compacted copy anew.
        with _environment(directory, lock=False) as env:
            names = self._databases
            databases = {name: env.open_db(name, create=False) for name in names}
            with env.begin() as txn:
                ledger = Snapshot(txn, databases, str(directory / DATA)).ledger()
            if ledger is not None:
                with env.begin(write=True) as txn:
                    Batch(txn, databases, ledger.totals).seal()
        with (directory / DATA).open("rb") as file:
            os.fsync(file.fileno())
        place.write_marker(directory, self.header)

    def compact(self) -> None:
        """Replace the data file by a compacted copy, and open that."""
        building = self.path / "compacting"
        self._end_reader()
        try:
            # What an interrupted call left here is an unfinished copy.
            shutil.rmtree(building, ignore_errors=True)
            building.mkdir(mode=0o700)
            self._copy_data(building)
            self._env.close()
            (building / DATA).replace(self.path / DATA)
            place.sync_directory(self.path)
            shutil.rmtree(building)
            self._found = place.identify(self.path)
            self._env = _environment(self.path)
            self._databases = self._open_databases()
            self._ledger = self._read_ledger(None)
            if self._mark is not None:
                self._mark.write(self._found, self._ledger.transaction)
        except (OSError, lmdb.Error) as error:
            raise failed(f"cannot compact {self.path}", self.path, error) from error


def _environment(
    path: Path, *, readonly: bool = False, lock: bool = True
) -> lmdb.Environment:
    size = (path / DATA).stat().st_size if (path / DATA).exists() else 0
    size = max(MAP_BYTES, 2 * size)
    try:
        return lmdb.open(
            str(path),
            map_size=size,
            readonly=readonly,
            lock=lock,
            # Pages are read at random: reading ahead would fetch what nobody asked for.
            readahead=False,
            max_dbs=len(DATABASES) + len(OPTIONAL_DATABASES),
            mode=0o600,
            lib_version=0,
        )
    except (lmdb.MemoryError, MemoryError) as error:
        raise _unmappable(path, size) from error


def _unmappable(path: Path, size: int) -> StoreError:
    return StoreError(
        f"cannot map {size:,} bytes of address space for {path / DATA}:"
        f" {limit_of_memory()}; raise it"
    )


def _build(building: Path, records: dict[str, dict[str, Any]]) -> None:
    """Fill a new environment and close it."""
    place.make_lock_file(building)
    head = {"magic": MAGIC, "format": FORMAT, "ledger": True}
    records = {**records, "store": head | records["store"]}
    env = _environment(building)
    try:
        with env.begin(write=True) as txn:
            databases = {name: env.open_db(name, txn) for name in DATABASES}
            batch = Batch(txn, databases)
            for name, record in records.items():
                batch.put_record(name, record)
            batch.seal()
    finally:
        env.close()
    place.write_marker(building, records["store"])


class _Progress:
    """Says in the log how far a long check has come."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._due = monotonic() + PATIENCE
        self._read = 0
        self._again = 10 * PATIENCE

    def read(self, size: int) -> None:
        """Take note of bytes read."""
        self._read += size
        if monotonic() >= self._due:
            self._due += self._again
            logger.info(
                "Checking %(file)s, which was not closed well or has been changed:"
                " %(done)d of %(all)d MB",
                {
                    "file": self._data,
                    "done": self._read // 1_000_000,
                    "all": self._data.stat().st_size // 1_000_000,
                },
            )
