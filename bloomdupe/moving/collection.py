"""Collection: a directory with the output of a shared crawl, and its state."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import StoreDamagedError, StoreMismatchError
from bloomdupe.store.files import lock_owner, make_directory, write_file
from bloomdupe.store.format import blob_sum
from bloomdupe.store.system_errors import failed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

    from bloomdupe.store.descriptor import Descriptor
    from bloomdupe.store.participant import Part

FORMAT = 2
RECORD = ".collected"
LOCK = ".collected.lock"
LATER = "the missing lines are still in Redis: run the same command again"
ANEW = "if nothing was deleted from Redis, collect all of it into a new directory"


class Origin(NamedTuple):
    """The frontier of the lines."""

    mark: str
    """The mark that identifies the frontier."""
    identity: dict[str, Any]
    start: list[str]
    """For each partition, the position after which a new collection begins."""


class Collection:
    """The record of a directory of feeds; it takes the place of a job's store.

    The directory holds the files of the feeds, ``.collected.lock``, which a single
    process locks, ``.collected.feeds``, the spool, and ``.collected``, the record. The
    record begins with a line of JSON:

    ``format``     2; any other format is refused
    ``frontier``   the mark that identifies the frontier
    ``identity``   of the frontier: spider, fingerprinter, feeds
    ``positions``  for each partition, the last entry of its output in the record
    ``blobs``      size and checksum of each value behind the line, by name
    ``entries``    see :class:`OldFeedsPart`; paths of files in
                   the directory are relative to it

    The values are the pieces that may not be in the files yet. So after any end of the
    process, record and files together hold all lines up to the positions.
    """

    def __init__(self, directory: Path, origin: Origin) -> None:
        self.directory = directory
        self.is_new = False
        """Whether it was begun by this process."""
        self.blobs: dict[str, bytes] = {}
        self._origin = origin
        self._lock: Descriptor | None = None
        self._record: dict[str, Any] = {}

    @classmethod
    def open(cls, directory: Path, origin: Origin) -> Self:
        """Open a collection that was begun, or begin a collection.

        Raises :class:`~bloomdupe.errors.StoreLockedError` if another process has it,
        and :class:`~bloomdupe.errors.StoreMismatchError` if it belongs to another
        frontier.
        """
        collection = cls(directory, origin)
        with contextlib.ExitStack() as undo:
            undo.callback(collection.close)
            with collection._in_our_words("cannot collect"):
                make_directory(directory)
                collection._lock = lock_owner(directory, LOCK)
                collection._read()
            undo.pop_all()
        return collection

    @property
    def store(self) -> Path:
        """The path beside which the spool is."""
        return self.directory / RECORD

    @property
    def positions(self) -> list[str]:
        """For each partition, the last entry that is durable here."""
        return list(self._record["positions"])

    @property
    def entries(self) -> dict[str, Any]:
        """The entries of the feeds, as of the last commit."""
        entries: dict[str, Any] = self._record["entries"]
        files = [
            {**file, "path": str(self.directory / file["path"])}
            if "spooled" not in file
            else file
            for file in entries.get("files", [])
        ]
        return {**entries, "files": files}

    def commit(self, part: Part, positions: Sequence[str]) -> None:
        """Make a part of the feeds durable, with the output up to these positions.

        Nothing is written if nothing has changed. Raises
        :class:`~bloomdupe.errors.StoreError`; then the last commit stands.
        """
        files = [self._relative(file) for file in part.entries["files"]]
        record = {
            "format": FORMAT,
            "frontier": self._origin.mark,
            "identity": self._origin.identity,
            "positions": [*positions],
            "blobs": {
                name: [len(blob), blob_sum(name, blob)]
                for name, blob in part.blobs.items()
            },
            "entries": {**part.entries, "files": files},
        }
        if record == self._record:
            return
        with self._in_our_words("cannot write", LATER):
            head = json.dumps(record).encode() + b"\n"
            write_file(self.store, [head, *part.blobs.values()])
        self._record = record

    def close(self) -> None:
        """Release the directory; nothing is written."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _relative(self, file: dict[str, Any]) -> dict[str, Any]:
        if "spooled" in file:
            return file
        path = Path(file["path"]).relative_to(self.directory)
        return {**file, "path": str(path)}

    def _read(self) -> None:
        """Read the record; refuse a damaged record, or that of another frontier."""
        try:
            data = self.store.read_bytes()
        except FileNotFoundError:
            self.is_new = True
            self._record = {"positions": self._origin.start, "entries": {}}
            return
        try:
            head, _, rest = data.partition(b"\n")
            self._check(json.loads(head))
            self._take_blobs(rest)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, StoreMismatchError):
                raise
            raise StoreDamagedError(
                f"{self.store} is damaged: {error}. Put it back as it was; or, {ANEW}"
            ) from error

    def _check(self, record: dict[str, Any]) -> None:
        origin = self._origin
        if record["format"] != FORMAT:
            raise StoreMismatchError(
                f"{self.store} has format {record['format']!r}, this version of"
                f" bloomdupe reads format {FORMAT}; use the version that wrote it"
            )
        if record["frontier"] != origin.mark:
            theirs, ours = record["identity"], origin.identity
            raise StoreMismatchError(
                f"{self.directory} was collected from another frontier: "
                + (
                    "this one was made anew under its name"
                    if theirs == ours
                    else f"that was of {theirs}, this one is of {ours}"
                )
                + ". Collect into another directory"
            )
        if len(record["positions"]) != len(origin.start):
            raise ValueError("it is not as it was written")
        self._record = record

    def _take_blobs(self, data: bytes) -> None:
        """Take the values behind the line."""
        for name, (size, total) in self._record["blobs"].items():
            self.blobs[name], data = data[:size], data[size:]
            if blob_sum(name, self.blobs[name]) != total:
                raise ValueError(f"the value {name} is not as it was written")
        if data:
            raise ValueError(f"{len(data):,} bytes are too many")

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
