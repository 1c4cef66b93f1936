"""OldFeedFile: an output file that holds committed lines, and nothing else."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.on_redis.going.feeds.content import Content
from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.store.descriptor import Descriptor
from bloomdupe.store.files import free_space, make_directory, sync_directory
from bloomdupe.store.platform import sync, sync_data

if TYPE_CHECKING:
    from pathlib import Path


class OldFeedFile:
    """A file that grows by pieces; each piece is committed before it is written.

    A piece is committed to the store with all its bytes, and written to the file only
    then; the next commit, before which the file is synced, drops it from the store. So
    the file never holds uncommitted lines, and after a crash the store has everything
    that is missing in it. Any other content of the file comes from elsewhere.

    A ``private`` file can be read by no other user. While it is open, no other process
    that uses this class can write to it (``flock``).
    """

    def __init__(self, content: Content, *, private: bool = False) -> None:
        self.content = content
        self.settle()
        self._private = private
        self._file: Descriptor | None = None
        self.due = False
        """Whether the piece is to be written by :meth:`append`."""
        self._begun = False
        self._unsynced = False
        self._new = False

    @property
    def path(self) -> str:
        """Path of the file, as it was given."""
        return self.content.path

    @property
    def place(self) -> Path:
        """Path of the file, absolute."""
        return self.content.place

    def settle(self) -> None:
        """Mark everything in the file as settled."""
        self.mark = self.content.mark
        """To this mark it is cut back if its crawl dies in the middle of a request."""
        self.held = self.content.held
        """The lines that are held then."""

    def take(self, content: Content) -> None:
        """Accept committed content, to be written by :meth:`append`."""
        self._begun = bool(self.content.piece)
        self.content = content
        self.due = not content.held

    def finish(self) -> None:
        """Write the piece of the last run, which may be in the file in part."""
        if self.content.piece:
            self.due = self._begun = True
            self.append()
            self.sync()

    def append(self) -> None:
        """Write the piece, which has been committed, to the end of the file.

        Raises :class:`FeedError` if that fails; then the piece may be there in part.
        """
        if not self.due:
            return
        content = self.content
        try:
            fd = self._opened()
            self._check_place(fd)
            if content.old is not None:
                os.ftruncate(fd, 0)
            view, offset = memoryview(content.piece), content.base
            while view:
                written = os.pwrite(fd, view, offset)
                view = view[written:]
                offset += written
        except OSError as error:
            if isinstance(error, FeedError):
                raise
            raise FeedError(
                f"cannot write to the feed {self.path}: {error}"
                f"{free_space(self.place)}; what is missing in it is kept in the"
                " store, and written when the crawl goes on"
            ) from error
        self.due = self._begun = False
        self._unsynced = True

    def sync(self) -> None:
        """Sync the file, so that the store may drop the piece."""
        if not self._unsynced or self._file is None or self._file.closed:
            return  # in a fork, the store refuses the commit
        try:
            sync_data(self._file.fileno())
            if self._new:
                sync_directory(self.place.parent)
                self._new = False
        except OSError as error:
            raise FeedError(f"cannot write to the feed {self.path}: {error}") from error
        self._unsynced = False
        if not self.due:
            self.content = self.content.written()

    def cut_back(self, length: int) -> None:
        """Cut the file back to its settled length; remove it if that is 0."""
        place = self.place
        try:
            if not length:
                place.unlink(missing_ok=True)
            elif place.stat().st_size > length:
                fd = self._opened()
                os.ftruncate(fd, length)
                sync(fd)
            self.content = Content.begin(self.path, place, overwrite=False)
        except OSError as error:
            raise FeedError(f"cannot continue the feed {self.path}: {error}") from error
        self.settle()

    def hold(self, held: bytes) -> None:
        """Continue with lines that the last run has held."""
        self.content = self.content.with_held(held)
        self.settle()

    def close(self) -> None:
        """Release the file; nothing is written."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> int:
        if self._file is None:
            self._new = not os.path.lexists(self.place)
            directory = self.place.parent
            flags = os.O_RDWR | os.O_CREAT
            if self._private:
                make_directory(directory, 0o700)
                flags |= os.O_NOFOLLOW
                self._file = Descriptor.open(self.place, flags, 0o600)
            else:
                make_directory(directory)
                self._file = Descriptor.open(self.place, flags, 0o666)
            try:
                fcntl.flock(self._file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.close()
                raise FeedError(
                    f"the feed {self.path} is being written by another feed or crawl:"
                    " a file belongs to one of them; name another file, such as one"
                    " with %(name)s in it, which stands for the spider"
                ) from None
            except OSError:
                pass  # no locks on this file system; the size shows other writers
        return self._file.fileno()

    def _check_place(self, fd: int) -> None:
        """Refuse to write to a file that was changed while it was open."""
        content = self.content
        ours = os.fstat(fd)
        place = self.place
        most = content.base + len(content.end)
        if self._begun:
            most = max(most, content.base + len(content.piece))
        if content.old is not None:
            most = max(most, content.old[0])
        if not place.exists():
            what = "was deleted"
        elif not os.path.samestat(place.stat(), ours):
            what = "was replaced"
        elif ours.st_size < content.base:
            what = f"was cut to {ours.st_size:,} bytes"
        elif ours.st_size > most:
            what = f"has grown to {ours.st_size:,} bytes"
        else:
            return
        raise FeedChangedError(
            f"the feed {self.path} {what} by another program while the crawl was"
            f" running, which had written {content.base:,} bytes to it"
        )
