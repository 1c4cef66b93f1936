"""Descriptor: an open file that ends with this process and is closed in its forks.

``flock(2)`` locks the open file, and a forked process shares the open file. So a lock
would be held until the last fork has ended, perhaps long after its owner was killed:
pools of processes outlive the process that has made them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from io import FileIO
from typing import TYPE_CHECKING

from bloomdupe.errors import StoreError

if TYPE_CHECKING:
    from typing_extensions import Self


def open_regular(
    path: str | os.PathLike[str], flags: int = os.O_RDONLY, mode: int = 0o600
) -> int:
    """Open a file of a job, as :func:`os.open` does, and return its descriptor.

    A job may come from a stranger, so a symbolic link is not followed, and nothing
    waits for the other end of a pipe. Raises :class:`OSError`, and :class:`StoreError`
    if it is not a regular file.
    """
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags, mode)
    except OSError as error:
        if error.errno not in _NOT_REGULAR:
            raise
        raise _not_regular(path) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _not_regular(path)
    return fd


_NOT_REGULAR = {errno.ELOOP, errno.ENXIO, errno.EISDIR}
"""Errors for a symbolic link, a socket or a pipe, and a directory."""


def _not_regular(path: str | os.PathLike[str]) -> StoreError:
    return StoreError(
        f"{path} is not a regular file, and a symbolic link is not followed there; move"
        " it away"
    )


class Descriptor(FileIO):
    """An open file that is closed in each fork of this process.

    Neither another program nor a fork inherits it. Closing it in a fork does not
    release the lock of this process, because this process still has the file open.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number, "r+")
        _open.add(self)

    @classmethod
    def open_regular(cls, path: str | os.PathLike[str], flags: int) -> Self:
        """Open a file as :func:`open_regular` does."""
        return cls(open_regular(path, flags))

    @classmethod
    def open(cls, path: str | os.PathLike[str], flags: int, mode: int) -> Self:
        """Open a file, as :func:`os.open` does."""
        return cls(os.open(path, flags | os.O_CLOEXEC, mode))

    def fileno(self) -> int:
        """Return the number; raises :class:`OSError` if it is closed."""
        if self.closed:
            raise OSError(errno.EBADF, "closed, perhaps because this is a fork")
        return super().fileno()

    def close(self) -> None:
        """Close it, and drop its lock; nothing happens if it is closed already."""
        _open.discard(self)
        super().close()


_open: set[Descriptor] = set()


def _close_all() -> None:
    for descriptor in list(_open):
        with contextlib.suppress(OSError):
            descriptor.close()


os.register_at_fork(after_in_child=_close_all)
