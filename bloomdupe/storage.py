"""Storage: the directory that holds everything durable, and its transactions.

Only :class:`Store` begins and ends transactions.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from typing import TYPE_CHECKING, Any, Protocol

import lmdb

from bloomdupe.errors import (
    StoreDamagedError,
    StoreError,
    StoreLockedError,
    StoreMismatchError,
)
from bloomdupe.format import (
    DATABASES,
    FORMAT,
    FRONTIER_FORMAT,
    MAGIC,
    OPTIONAL_DATABASES,
    Batch,
    Snapshot,
    damaged,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from pathlib import Path

    from typing_extensions import Self

__all__ = ["Change", "Store"]

DATA = "data.mdb"
OWNER = "owner.lock"

MAP_BYTES = 1 << 30
"""Address space at first; doubled whenever a batch does not fit."""


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

    :mod:`bloomdupe.format` says what is in ``data.mdb``.
    """

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        """Open the existing store at ``path``; see :meth:`open`."""
        self.path = path
        self.readonly = readonly
        self._place = str(path / DATA)
        self._pid = os.getpid()
        self._lock: int | None = None
        self._reader: Snapshot | None = None
        if not readonly:
            self._lock = _lock_owner(path)
        try:
            # LMDB's own lock file is in use from the first owner on.
            locked = (path / OWNER).exists()
            self._env = _environment(path, readonly=readonly, lock=locked)
            try:
                self._databases = self._open_databases()
                self.header = self._read_header()
            except BaseException:
                self._env.close()
                raise
        except BaseException:
            self._unlock()
            raise
        if not readonly:
            self._env.reader_check()

    # Life of a store

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether there is a store to open; refuses anything else that is there.

        An empty directory and nothing at all count as no store.
        """
        if not path.exists() and not path.is_symlink():
            return False
        if not path.is_dir():
            raise StoreError(
                f"{path} is not a directory, so it cannot be a bloomdupe store;"
                " move it away or name another place"
            )
        data = path / DATA
        if not os.path.lexists(data):
            if any(path.iterdir()):
                raise StoreError(
                    f"{path} holds other files but no {DATA}: it is not a bloomdupe"
                    " store, or its data was deleted; restore it from a backup or"
                    " name another place"
                )
            return False
        mode = data.lstat()
        if not stat.S_ISREG(mode.st_mode) or mode.st_size == 0:
            raise StoreDamagedError(
                f"{data} is empty or not a regular file; restore the store from a"
                " backup, or move it away to start anew"
            )
        return True

    @classmethod
    def create(cls, path: Path, records: dict[str, dict[str, Any]]) -> Self:
        """Create a store with these records, among them ``store``, and open it.

        It is built beside its place and renamed into it, so a crash at any
        instant leaves either no store or a whole one.
        """
        building = path.with_name(path.name + ".creating")
        try:
            _make_directory(path.parent)
            building.mkdir(mode=0o700, exist_ok=True)
            lock = _lock_owner(building)
            try:
                for leftover in building.iterdir():
                    if leftover.name != OWNER:
                        leftover.unlink()
                _build(building, records)
                # The names in it must be durable before its own is.
                _sync_directory(building)
                building.rename(path)
                _sync_directory(path.parent)
            finally:
                os.close(lock)
        except StoreError:
            raise
        except (OSError, lmdb.Error) as error:
            raise StoreError(
                f"cannot create a store at {path}: {error}{_space(path)}"
            ) from error
        return cls.open(path)

    @classmethod
    def open(cls, path: Path, *, readonly: bool = False) -> Self:
        """Open the store at ``path``.

        ``readonly`` takes no lock, and looks at the last commit even while
        another process writes.
        """
        if not cls.exists(path):
            raise StoreError(f"{path}: there is no bloomdupe store")
        try:
            if not (path / OWNER).exists():
                # Not opened by us so far: look before leaving files in it.
                cls(path, readonly=True).close()
            return cls(path, readonly=readonly)
        except StoreError:
            raise
        except lmdb.InvalidError as error:
            raise StoreDamagedError(
                f"{path / DATA} is not an LMDB file of version 0.9: {error};"
                " restore the store from a backup, or move it away to start anew"
            ) from error
        except (OSError, lmdb.Error) as error:
            raise StoreError(f"cannot open the store {path}: {error}") from error

    def close(self) -> None:
        """Release the store. Nothing is written."""
        self._end_reader()
        self._env.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _open_databases(self) -> dict[bytes, Any]:
        try:
            databases = {
                name: self._env.open_db(name, create=False) for name in DATABASES
            }
        except lmdb.NotFoundError as error:
            raise StoreMismatchError(
                f"{self.path / DATA} is an LMDB file, but not of bloomdupe; name"
                " another place"
            ) from error
        for name in OPTIONAL_DATABASES:
            with contextlib.suppress(lmdb.NotFoundError):
                databases[name] = self._env.open_db(name, create=False)
        return databases

    def make_room_for(self, *names: bytes) -> None:
        """Add optional databases, if they are not there yet."""
        try:
            for name in names:
                if name not in self._databases:
                    self._databases[name] = self._env.open_db(name)
        except lmdb.Error as error:
            raise self._cannot_write(error) from error

    def _read_header(self) -> dict[str, Any]:
        with self.snapshot() as snapshot:
            header = snapshot.record("store")
            frontier = snapshot.record("frontier")
        if header is None or header.get("magic") != MAGIC:
            raise StoreMismatchError(
                f"{self.path / DATA} has no bloomdupe header; name another place"
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

    # Writing

    def commit(self, *changes: Change) -> None:
        """Write all changes in one durable transaction: all of them, or none.

        If it fails, the last commit stands, nothing was noted as done, and the
        same changes can be committed later.
        """
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.path} was opened by process {self._pid}; a forked child must"
                " not write to it"
            )
        self._end_reader()  # or pages that it sees could not be used again
        while True:
            try:
                with self._env.begin(write=True) as txn:
                    batch = Batch(txn, self._databases)
                    for change in changes:
                        change.write(batch)
                break
            except lmdb.MapFullError:
                self._grow_map()
            except lmdb.Error as error:
                raise self._cannot_write(error) from error
        for change in changes:
            change.done()

    def _cannot_write(self, error: Exception) -> StoreError:
        return StoreError(
            f"cannot write to {self.path / DATA}: {error}{_space(self.path)}; the last"
            " checkpoint stands"
        )

    def _grow_map(self) -> None:
        size = 2 * int(self._env.info()["map_size"])
        try:
            self._env.set_mapsize(size)
        except (lmdb.Error, MemoryError) as error:
            raise StoreError(
                f"cannot map {size:,} bytes for {self.path / DATA}: {error}; is"
                " there a limit on address space (ulimit -v)?"
            ) from error

    def copy(self, target: Path) -> None:
        """Write a compacted copy of the last commit to the new store ``target``.

        Other processes may read and write meanwhile.
        """
        if target.exists():
            raise StoreError(f"{target} exists; name a new place for the copy")
        building = target.with_name(target.name + ".creating")
        try:
            building.mkdir(mode=0o700, parents=True)
            self._copy_data(building)
            building.rename(target)
            _sync_directory(target.parent)
        except (OSError, lmdb.Error) as error:
            raise StoreError(
                f"cannot copy {self.path} to {target}: {error}{_space(target)}"
            ) from error

    def _copy_data(self, directory: Path) -> None:
        self._env.copy(str(directory), compact=True)
        data = directory / DATA
        data.chmod(0o600)
        with data.open("rb") as file:
            os.fsync(file.fileno())
        _sync_directory(directory)

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
            _sync_directory(self.path)
            building.rmdir()
            self._env = _environment(self.path)
            self._databases = self._open_databases()
        except (OSError, lmdb.Error) as error:
            raise StoreError(
                f"cannot compact {self.path}: {error}{_space(self.path)}"
            ) from error


def _environment(
    path: Path, *, readonly: bool = False, lock: bool = True
) -> lmdb.Environment:
    size = (path / DATA).stat().st_size if (path / DATA).exists() else 0
    return lmdb.open(
        str(path),
        map_size=max(MAP_BYTES, 2 * size),
        readonly=readonly,
        lock=lock,
        # Pages are read at random: reading ahead would fetch what nobody asked for.
        readahead=False,
        max_dbs=len(DATABASES) + 4,
        mode=0o600,
        lib_version=0,
    )


def _build(building: Path, records: dict[str, dict[str, Any]]) -> None:
    """Fill a new environment and close it."""
    env = _environment(building)
    try:
        databases = {name: env.open_db(name) for name in DATABASES}
        with env.begin(write=True) as txn:
            batch = Batch(txn, databases)
            for name, record in records.items():
                head = {"magic": MAGIC, "format": FORMAT} if name == "store" else {}
                batch.put_record(name, head | record)
    finally:
        env.close()


def _lock_owner(path: Path) -> int:
    """Take the owner's lock and return its file descriptor.

    The kernel drops the lock with the process, so a killed owner blocks nobody.
    """
    fd = os.open(path / OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        pid = os.pread(fd, 32, 0).decode(errors="replace").strip()
        os.close(fd)
        raise StoreLockedError(
            f"{path} is in use by process {pid or 'unknown'}; wait for it or stop it"
        ) from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _make_directory(path: Path) -> None:
    """Make a directory and its parents so that a power cut leaves them."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for place in missing:
        _sync_directory(place.parent)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _space(path: Path) -> str:
    """Free space where ``path`` lies, for an error message."""
    for place in (path, *path.parents):
        with contextlib.suppress(OSError):
            return f" ({shutil.disk_usage(place).free:,} bytes free)"
    return ""
