"""System errors: turns errors of the disk and of LMDB into errors with a remedy."""

from __future__ import annotations

import errno
import os
import resource
import tempfile
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import lmdb

from bloomdupe.errors import BloomDupeError, StoreError, StoreFullError, StoreIOError
from bloomdupe.store.files import DATA
from bloomdupe.store.platform import existing, free_bytes, reserve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PROBE_BYTES = 1 << 20
ROOM = (
    "make room on the disk or in the quota, or raise the limit on file size (ulimit -f)"
)
ADDRESSES = "the limit on address space (ulimit -v)"


@contextmanager
def explained(what: str, path: Path, then: str = "") -> Iterator[None]:
    """Raise our error for one of the disk or of LMDB; see :func:`failed`."""
    try:
        yield
    except BloomDupeError:
        raise
    except (OSError, lmdb.Error) as error:
        raise failed(what, path, error, then) from error


def failed(what: str, path: Path, error: Exception, then: str = "") -> StoreError:
    """Return the error for a failure in ``path``, with its reason and a remedy."""
    code = getattr(error, "code", None) or getattr(error, "errno", None)
    kind: type[StoreError] = StoreError
    reason, remedy = f"{error}", ""
    if code in FULL or (code == errno.EIO and _is_full(path)):
        kind, remedy = StoreFullError, ROOM
        if code == errno.EIO:  # as LMDB reports a write that was cut short
            reason = f"{os.strerror(errno.ENOSPC)} ({error})"
    elif code == errno.EIO or isinstance(error, lmdb.PanicError):
        kind, remedy = StoreIOError, "look at the system's log (dmesg) and at the disk"
    elif code in (errno.EACCES, errno.EPERM):
        remedy = "look at its owner and its permissions"
    if kind is not StoreError:
        with suppress(OSError):
            reason += f" ({free_bytes(path):,} bytes free)"
    return kind("; ".join(filter(None, [f"{what}: {reason}", then, remedy])))


def reason_of(error: BaseException) -> str:
    """Return the reason with which a crawl is closed after an error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, StoreFullError) or getattr(cause, "errno", None) in FULL:
            return "frontier_disk_full"
        if isinstance(cause, MemoryError):
            return "out_of_memory"
        if isinstance(cause, StoreIOError) or getattr(cause, "errno", 0) == errno.EIO:
            return "frontier_io_error"
        cause = cause.__cause__
    return "frontier_error"


def _is_full(path: Path) -> bool:
    """Whether the disk, the quota or the limit on file sizes leaves no more room."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    try:
        size = (path / DATA).stat().st_size
    except OSError:
        size = 0
    if limit != resource.RLIM_INFINITY and size + PROBE_BYTES > limit:
        return True
    try:
        with tempfile.TemporaryFile(dir=existing(path)) as probe:
            reserve(probe.fileno(), PROBE_BYTES)
    except OSError as error:
        return error.errno in FULL
    return False
