"""Files: the directory of a store, and the files beside LMDB's data."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import stat
import time
from io import FileIO
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from bloomdupe.errors import StoreDamagedError, StoreError, StoreLockedError
from bloomdupe.foreign import json_of
from bloomdupe.store.format import last_backup
from bloomdupe.store.platform import file_system_of, reserve, sync

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DATA = "data.mdb"
OWNER = "owner.lock"
LMDB_LOCK = "lock.mdb"
MARK = "clean.json"
RULES = "rules.json"

LOCK_BYTES = 8192
"""Size of LMDB's lock file: a head, and 126 readers of 64 bytes."""
MOST_JSON = 1 << 26
"""Bytes of a JSON file that is read."""
REMOVING = ".removing"
"""End of the name of a directory while it is deleted."""
PATIENCE = 10.0
"""Seconds of further attempts at the owner's lock while there is no owner."""
PAUSE = 0.001
"""Seconds between two attempts."""
SILENT_AFTER = 20.0
"""Seconds without a heartbeat that are cause for concern: the reactor gives one
every five seconds, and may be kept from it for a while by a long callback."""

# fmt: off
NETWORK_FILE_SYSTEMS = frozenset([
    "9p", "afpfs", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.ceph", "fuse.gcsfuse",
    "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs",
    "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs",
    "webdav",
])
# fmt: on


class Owner(NamedTuple):
    """The process that owns a store."""

    process: int
    """Its number; 0 if that cannot be read."""
    heartbeat: float | None
    """Unix time of its last heartbeat; None: it runs no crawl, or not yet."""

    @classmethod
    def of(cls, text: bytes) -> Owner:
        """Read the owner's lock, see :func:`lock_owner`."""
        with contextlib.suppress(ValueError):
            process, *beats = text.split()
            return cls(int(process), float(beats[0]) if beats else None)
        return cls(0, None)


def holds_store(path: Path) -> bool:
    """Whether a directory is itself a store of ours, even if its data is lost."""
    return any(os.path.lexists(path / name) for name in (DATA, MARK))


def identify(path: Path) -> os.stat_result:
    """Return the ``stat`` result of a store's data file.

    Refuses everything except a regular file of this user.
    """
    data = path / DATA
    try:
        found = data.lstat()
    except FileNotFoundError:
        raise StoreDamagedError(f"{data} was deleted; {_restore(path)}") from None
    if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
        raise StoreDamagedError(
            f"{data} is empty or not a regular file; {_restore(path)}"
        )
    if os.geteuid() not in (0, found.st_uid):
        raise StoreError(
            f"{data} belongs to user {found.st_uid}, this is user {os.geteuid()}: run"
            " as that user, or change its owner"
        )
    return found


def _restore(path: Path) -> str:
    return f"{last_backup(path)}, or nothing to start anew"


# Open files


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a file of a job, as :func:`os.open` does, and return its descriptor.

    What root makes for another owner of the directory is his.

    A job may come from a stranger, so a symbolic link is not followed, and nothing
    waits for the other end of a pipe. Raises :class:`OSError`, and :class:`StoreError`
    if it is not a regular file.
    """
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode):
            if flags & os.O_CREAT and not found.st_size:
                give(path)
            return fd
        os.close(fd)
    except OSError as error:
        if error.errno not in _NOT_REGULAR:
            raise
    raise StoreError(
        f"{path} is not a regular file, and a symbolic link is not followed there; move"
        " it away"
    )


_NOT_REGULAR = {errno.ELOOP, errno.ENXIO, errno.EISDIR}
"""Errors for a symbolic link, a socket or a pipe, and a directory."""


class Descriptor(FileIO):
    """An open file that is closed in each fork of this process.

    ``flock(2)`` locks the open file, which a fork shares. So a lock would be held until
    the last fork has ended, perhaps long after its owner was killed: pools of processes
    outlive the process that has made them.

    Neither another program nor a fork inherits it. Closing it in a fork does not
    release the lock of this process, because this process still has the file open.
    """

    all_open: ClassVar[set[Descriptor]] = set()
    """Of the class, because the module may be gone when an object is collected."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "r+")
        self.all_open.add(self)

    def fileno(self) -> int:
        """Return the number; raises :class:`OSError` if it is closed."""
        if self.closed:
            raise OSError(errno.EBADF, "closed, perhaps because this is a fork")
        return super().fileno()

    def close(self) -> None:
        """Close it, and drop its lock; nothing happens if it is closed already."""
        self.all_open.discard(self)
        super().close()


def _close_all() -> None:
    for descriptor in list(Descriptor.all_open):
        with contextlib.suppress(OSError):
            descriptor.close()


os.register_at_fork(after_in_child=_close_all)


# Owner


def lock_owner(path: Path, name: str = OWNER) -> Descriptor:
    """Take the owner's lock, a file in ``path``, and return its descriptor.

    The kernel drops the lock when the process ends, so a killed owner blocks no
    process. The file begins with the number of the process. Its second line is the last
    heartbeat (see :func:`write_heartbeat`). Both count only while the file is locked,
    so nothing is left of a killed owner, even if its number belongs to another process.
    """
    lock = Descriptor(open_regular(path / name, os.O_RDWR | os.O_CREAT))
    fd = lock.fileno()
    if not _lock(fd):
        owner = Owner.of(os.pread(fd, 64, 0))
        lock.close()
        if owner.process == os.getpid():
            raise StoreLockedError(
                f"{path} is in use by this process; give each of its crawls a place of"
                " its own"
            )
        raise StoreLockedError(
            f"{path} is in use by process {owner.process or 'unknown'}; wait for it or"
            " stop it, or kill it if it hangs: nothing is lost"
        )
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    except OSError:  # such as a full disk: this process may try again
        lock.close()
        raise
    return lock


def write_heartbeat(lock: Descriptor, moment: float) -> None:
    """Write a heartbeat into the owner's lock.

    It needs no sync, and no space but that of the process number. If it cannot be
    written, it is missing, and that is how a reader notices.
    """
    with contextlib.suppress(OSError):
        os.pwrite(lock.fileno(), f"{os.getpid()}\n{moment:.3f}\n".encode(), 0)


def _lock(fd: int) -> bool:
    """Take the owner's lock, and return whether that was possible.

    An instant of :func:`owner_of` shares the lock. If this process can share it, too,
    there is no owner, and it tries again.
    """
    end = time.monotonic() + PATIENCE
    while not _flock(fd, fcntl.LOCK_EX):
        if not _flock(fd, fcntl.LOCK_SH) or time.monotonic() > end:
            return False
        fcntl.flock(fd, fcntl.LOCK_UN)
        time.sleep(PAUSE)
    return True


def _flock(fd: int, kind: int) -> bool:
    """Lock a file, and return whether that was possible at once."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def owner_of(path: Path) -> Owner | None:
    """Return the process that owns the store at this moment; None without an owner."""
    try:
        fd = open_regular(path / OWNER)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        return None if _flock(fd, fcntl.LOCK_SH) else Owner.of(file.read(64))


def make_lock_file(path: Path) -> None:
    """Give LMDB's lock file its space on disk, before LMDB maps it.

    LMDB makes it with a hole, and writing there on a full disk ends the process. Never
    call this while LMDB has the file open: closing it drops LMDB's locks.
    """
    place = path / LMDB_LOCK
    with contextlib.suppress(FileNotFoundError):
        found = place.lstat()
        size = min(found.st_size, found.st_blocks * 512)
        if size >= LOCK_BYTES and stat.S_ISREG(found.st_mode):
            return
    fd = open_regular(place, os.O_RDWR | os.O_CREAT)
    try:
        reserve(fd, LOCK_BYTES)
    finally:
        os.close(fd)


# Small files


def write_json(place: Path, record: dict[str, Any]) -> None:
    """Write a JSON file; see :func:`write_file`."""
    text = json.dumps(record, indent=1) + "\n"
    write_file(place, [text.encode()])


def write_file(place: Path, parts: Iterable[bytes], *, mode: int = 0o600) -> None:
    """Write a file atomically and durably; if this fails, nothing is left behind.

    By default only its owner can read it.
    """
    building = place.with_name(place.name + ".new")
    fd = open_regular(building, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with open(fd, "wb") as file:
        try:
            for part in parts:
                file.write(part)
            file.flush()
            sync(fd)
            building.replace(place)
        except BaseException:
            building.unlink(missing_ok=True)
            raise
    sync_directory(place.parent)


def give(place: Path) -> None:
    """Give what root has made to the owner of its directory, if that is possible."""
    if not os.geteuid():
        owner = place.parent.stat()
        with contextlib.suppress(OSError):
            os.chown(place, owner.st_uid, owner.st_gid, follow_symlinks=False)


def read_bytes(place: Path, start: int, end: int) -> bytes:
    """Return a part of a file."""
    with place.open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def write_bytes(fd: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of the data to this place of an open file."""
    end = offset + len(data)
    while offset < end:
        offset += os.pwrite(fd, data[offset - end :], offset)


def is_at(place: Path, fd: int) -> bool:
    """Whether an open file still has this name."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(place.lstat(), os.fstat(fd))
    return False


def read_json(place: Path) -> dict[str, Any] | None:
    """Return the record in a JSON file; None if there is no file.

    Raises :class:`ValueError` for other content.
    """
    try:
        fd = open_regular(place)
    except FileNotFoundError:
        return None
    with open(fd, encoding="utf-8") as file:
        if os.fstat(fd).st_size > MOST_JSON:
            raise ValueError(f"it has more than {MOST_JSON:,} bytes")
        record = json_of(file.read(), MOST_JSON)
    if not isinstance(record, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - it is about the file's content
    return record


# Disks


def check_file_system(path: Path) -> None:
    """Refuse a network file system: neither locks nor mapped files are safe there."""
    kind = file_system_of(path)
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreError(
            f"{path} is on a network file system ({kind}), where locks and mapped files"
            " are not safe: name a place on a local disk"
        )


def make_directory(path: Path, mode: int = 0o777) -> None:
    """Make a directory and its parents, durable in a power cut."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(mode, parents=True, exist_ok=True)
    for place in missing:
        sync_directory(place.parent)


def put_directory(building: Path, place: Path) -> None:
    """Move a directory of durable files to its place, where it is whole or absent."""
    sync_directory(building)  # or a power cut may take the names of its files
    building.rename(place)
    sync_directory(place.parent)


def refuse_link(path: Path) -> None:
    """Refuse a link or a file at a place where bloomdupe makes and empties a directory.

    Only an interrupted call of bloomdupe may leave a directory there. A link may lead
    to files that do not belong to bloomdupe.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"cannot look at {path}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(
            f"{path} is a link or a file, where bloomdupe makes a directory of its own;"
            " it was not followed: find out who has put it there, and delete it"
        )


def removed_name(path: Path) -> Path:
    """Return the place to which a directory is moved before it is deleted."""
    return path.with_name(path.name + REMOVING)


def delete_unfinished(path: Path) -> None:
    """Delete the directory that an interrupted call may have left."""
    refuse_link(path)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(fd)
    finally:
        os.close(fd)
