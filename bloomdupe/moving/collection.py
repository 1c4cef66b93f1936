"""Collection: a directory of files that hold each line of a shared crawl once."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from bloomdupe.errors import (
    FeedChangedError,
    StoreDamagedError,
    StoreMismatchError,
)
from bloomdupe.store.files import (
    lock_owner,
    make_directory,
    read_json,
    sync_directory,
    write_json,
)
from bloomdupe.store.platform import sync
from bloomdupe.store.system_errors import failed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from typing_extensions import Self

    from bloomdupe.store.descriptor import Descriptor

FORMAT = 1
RECORD = ".collected.json"
LOCK = ".collected.lock"
LATER = "the missing lines are still in Redis: run the same command again"


class Origin(NamedTuple):
    """The frontier of the lines."""

    mark: str
    """The mark that identifies the frontier."""
    identity: dict[str, Any]
    start: list[str]
    """For each partition, the position after which a new collection begins."""


class Collection:
    """Files that grow by batches, and a record of their state.

    The directory also holds ``.collected.lock``, which a single process locks, and
    ``.collected.json``:

    ``format``     1; any other format is refused
    ``frontier``   the mark that identifies the frontier
    ``identity``   of the frontier: spider, fingerprinter, feeds
    ``positions``  for each partition, the last entry of its output in the files
    ``files``      for each file, its size in bytes at these positions
    ``growing``    whether the files may be longer, by a part of the next batch

    A batch is appended, the files are synced, and then the new record replaces the
    old record. So after any end of the process, the files agree with the record up to
    the recorded sizes. The next run cuts off the rest and writes it again. A file that
    was changed in any other way is refused.
    """

    def __init__(self, directory: Path, origin: Origin, names: Sequence[str]) -> None:
        self.directory = directory
        self.names = list(names)
        """Names of the files, in the order of the feeds."""
        self._origin = origin
        self._lock: Descriptor | None = None
        self._files: dict[str, int] = {}
        self._record: dict[str, Any] = {}

    @classmethod
    def open(cls, directory: Path, origin: Origin, names: Sequence[str]) -> Self:
        """Open a collection that was begun, or begin in an empty directory.

        Raises :class:`~bloomdupe.errors.StoreLockedError` if another process has it,
        :class:`~bloomdupe.errors.StoreMismatchError` if it belongs to another frontier,
        and :class:`~bloomdupe.errors.FeedChangedError` if a file was changed from
        outside.
        """
        collection = cls(directory, origin, names)
        with contextlib.ExitStack() as undo:
            undo.callback(collection._release)
            with collection._in_our_words("cannot collect"):
                make_directory(directory)
                collection._lock = lock_owner(directory, LOCK)
                if (directory / RECORD).is_symlink() or (directory / RECORD).exists():
                    collection._go_on()
                else:
                    collection._begin()
            undo.pop_all()
        return collection

    @property
    def positions(self) -> list[str]:
        """For each partition, the last entry that is durable in the files."""
        return list(self._record["positions"])

    @property
    def sizes(self) -> dict[str, int]:
        """Durable bytes of each file."""
        return dict(self._record["files"])

    def append(self, pieces: Mapping[str, bytes], positions: Sequence[str]) -> None:
        """Append the output up to these positions to the files; durable on return.

        Raises :class:`~bloomdupe.errors.StoreError`; then the files count as unchanged.
        """
        with self._in_our_words("cannot write", LATER):
            if not self._record["growing"]:
                self._keep({**self._record, "growing": True})
            sizes = self.sizes
            for name, piece in pieces.items():
                self._check_place(name, sizes[name])
                self._write(name, piece, sizes[name])
                sizes[name] += len(piece)
            for name in pieces:
                sync(self._files[name])
            self._keep({**self._record, "positions": [*positions], "files": sizes})

    def close(self) -> None:
        """Cut the files back to the record, mark them complete, release the lock."""
        try:
            if self._record.get("growing"):
                with self._in_our_words("cannot end the collection", LATER):
                    self._go_on()  # by the record as it is on disk
                    self._keep({**self._record, "growing": False})
        finally:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:  # the first error says more than an error of closing
            with contextlib.suppress(OSError):
                self.close()

    # Beginning

    def _begin(self) -> None:
        """Make the files, and then the record: a record never lacks its files."""
        for name in self.names:
            if self._size(name) > 0:
                raise FeedChangedError(
                    f"{self.directory / name} is there, and was not collected by"
                    f" bloomdupe: there is no {RECORD} beside it. Move it away, or"
                    " collect into another directory"
                )
            self._open_file(name, os.O_CREAT)
            sync(self._files[name])
        sync_directory(self.directory)
        origin = self._origin
        self._keep(
            {
                "format": FORMAT,
                "frontier": origin.mark,
                "identity": origin.identity,
                "positions": origin.start,
                "files": dict.fromkeys(self.names, 0),
                "growing": False,
            }
        )

    def _go_on(self) -> None:
        """Read the record, and cut the files back to it."""
        self._record = record = self._read()
        for name, size in record["files"].items():
            found, place = self._size(name), self.directory / name
            if found < 0:
                raise FeedChangedError(
                    f"{place} is gone: {size:,} bytes were collected in it."
                    f" {self._remedy()}"
                )
            if found < size:
                raise FeedChangedError(
                    f"{place} was changed: it has {found:,} bytes, but {size:,} were"
                    f" collected in it. {self._remedy()}"
                )
            if found > size and not record["growing"]:
                raise FeedChangedError(
                    f"{place} was changed: it has {found:,} bytes, but the last"
                    f" collecting ended in good order with {size:,}. Cut off the added"
                    f" bytes: truncate --size={size} {place}"
                )
            self._open_file(name)
            if found > size:
                os.ftruncate(self._files[name], size)
                sync(self._files[name])

    def _remedy(self) -> str:
        return (
            "Put it back as it was; or, if nothing was deleted from Redis (--delete),"
            " collect all of it once more into a new directory"
        )

    def _read(self) -> dict[str, Any]:
        place, origin = self.directory / RECORD, self._origin
        try:
            record = read_json(place)
            if record is None:
                raise ValueError("it is gone")  # noqa: TRY301
        except ValueError as error:
            raise StoreDamagedError(
                f"{place} is damaged: {error}. {self._remedy()}"
            ) from error
        if record.get("format") != FORMAT:
            raise StoreMismatchError(
                f"{place} has format {record.get('format')!r}, this version of"
                f" bloomdupe knows {FORMAT}; use the version that wrote it"
            )
        if record.get("frontier") != origin.mark:
            theirs, ours = record.get("identity"), origin.identity
            raise StoreMismatchError(
                f"{self.directory} was collected from another frontier: "
                + (
                    "this one was made anew under its name"
                    if theirs == ours
                    else f"that was of {theirs}, this one is of {ours}"
                )
                + ". Collect into another directory"
            )
        if not _is_whole(record, len(origin.start), self.names):
            raise StoreDamagedError(
                f"{place} is not as it was written. {self._remedy()}"
            )
        return record

    # Files

    def _size(self, name: str) -> int:
        """Return the size of a file, -1 if it is not there."""
        place = self.directory / name
        try:
            found = place.lstat()
        except FileNotFoundError:
            return -1
        if not stat.S_ISREG(found.st_mode):
            raise FeedChangedError(
                f"{place} is no regular file; move it away, or collect into another"
                " directory"
            )
        return found.st_size

    def _open_file(self, name: str, how: int = 0) -> None:
        if name not in self._files:
            flags = how | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
            self._files[name] = os.open(self.directory / name, flags, 0o666)

    def _check_place(self, name: str, size: int) -> None:
        """Refuse to write to a file that was changed from outside while it was open."""
        ours = os.fstat(self._files[name])
        with contextlib.suppress(FileNotFoundError):
            found = (self.directory / name).lstat()
            if os.path.samestat(found, ours) and found.st_size == size:
                return
        raise FeedChangedError(
            f"{self.directory / name} was changed while lines were collected in it."
            f" {self._remedy()}"
        )

    def _write(self, name: str, piece: bytes, offset: int) -> None:
        view = memoryview(piece)
        while view:
            written = os.pwrite(self._files[name], view, offset)
            view, offset = view[written:], offset + written

    def _keep(self, record: dict[str, Any]) -> None:
        write_json(self.directory / RECORD, record)
        self._record = record

    def _release(self) -> None:
        for fd in self._files.values():
            os.close(fd)
        self._files.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @contextlib.contextmanager
    def _in_our_words(self, what: str, then: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno is None:  # our own error
                raise
            raise failed(
                f"{what} into {self.directory}", self.directory, error, then
            ) from error


def _is_whole(record: dict[str, Any], partitions: int, names: Sequence[str]) -> bool:
    positions, files = record.get("positions"), record.get("files")
    return (
        isinstance(positions, list)
        and len(positions) == partitions
        and all(isinstance(position, str) for position in positions)
        and isinstance(files, dict)
        and list(files) == list(names)
        and all(type(size) is int and size >= 0 for size in files.values())
        and type(record.get("growing")) is bool
    )


def file_names(feeds: Sequence[str], spider: str) -> list[str]:
    """Return the name of a file for each feed: the last part of its URI.

    The spider's name replaces ``%(name)s``, as in Scrapy. Raises
    :class:`~bloomdupe.errors.StoreMismatchError` if a URI gives no name, or two give
    the same.
    """
    found: dict[str, str] = {}
    for feed in feeds:
        path = urlsplit(feed).path if "://" in feed else feed
        name = path.rpartition("/")[2].replace("%(name)s", spider)
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise StoreMismatchError(
                f"the feed {feed!r} has no last part that could name a file"
            )
        if name.startswith(RECORD.partition(".json")[0]):
            raise StoreMismatchError(
                f"the feed {feed!r} would have the file {name}, which is bloomdupe's"
            )
        if name in found:
            raise StoreMismatchError(
                f"the feeds {found[name]!r} and {feed!r} would have the same file"
                f" {name}; give them names of their own in FEEDS, in a new crawl"
            )
        found[name] = feed
    return list(found)
