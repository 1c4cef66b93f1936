"""CompleteFilesStore: a file of a media pipeline is complete, or does not exist.

Scrapy writes a file in its place. If the process is killed meanwhile, half a file is
there, and the next run regards it as complete: "uptodate".
"""

from __future__ import annotations

import errno
import fcntl
import os
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bloomdupe.inside_scrapy.private_names import FSFilesStore
from bloomdupe.store.files import (
    Descriptor,
    is_at,
    make_directory,
    sync_directory,
    write_bytes,
)
from bloomdupe.store.platform import sync
from bloomdupe.store.system_errors import failed

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BytesIO

OF_THE_DISK = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class CompleteFilesStore(FSFilesStore):  # type: ignore[misc]  # it is looked up
    """Writes a file under a temporary name, syncs it, and renames it.

    The temporary file is in the same folder. Its name begins with a dot and is derived
    from the file's own name. If a killed process has left such a file, the next
    download of the same file overwrites it, when the page is fetched again.

    Scrapy would log that a file could not be written, and let the item go on without
    it, for ever. So if the disk is the cause, ``fail`` is called and stops the crawl.
    """

    def __init__(self, basedir: str, fail: Callable[[Exception], None]) -> None:
        super().__init__(basedir)
        self._fail = fail

    def persist_file(
        self,
        path: str | os.PathLike[str],
        buf: BytesIO,
        info: Any,
        meta: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Write a file; called by the pipeline."""
        place = Path(self.basedir, *os.fspath(path).split("/"))
        try:
            self._write(place, buf)
        except OSError as error:
            if error.errno in OF_THE_DISK:  # and not in this file's name
                what = f"cannot write {place}, a file of a media pipeline"
                self._fail(failed(what, place.parent, error))
            raise

    def _write(self, place: Path, buf: BytesIO) -> None:
        make_directory(place.parent)
        digest = sha1(place.name.encode()).hexdigest()  # noqa: S324 - it names a file
        unfinished = place.with_name(f".{digest}.unfinished")
        with _locked(unfinished) as file:
            os.ftruncate(file.fileno(), 0)
            with buf.getbuffer() as view:
                write_bytes(file.fileno(), view, 0)
            sync(file.fileno())
            unfinished.replace(place)
        sync_directory(place.parent)


def _locked(path: Path) -> Descriptor:
    """Open and lock a file; waits while another process has locked it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
    while True:
        descriptor = Descriptor(os.open(path, flags, 0o666))
        fcntl.flock(descriptor.fileno(), fcntl.LOCK_EX)
        # The process that had the lock may have renamed the file meanwhile.
        if is_at(path, descriptor.fileno()):
            return descriptor
        descriptor.close()
