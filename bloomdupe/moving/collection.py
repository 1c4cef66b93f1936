"""Collection: a directory with the output of a shared crawl, and its state."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreDamagedError, StoreMismatchError
from bloomdupe.store.files import lock_owner, make_directory, read_json, write_json
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from bloomdupe.moving.stream_output import StreamOutput
    from bloomdupe.store.descriptor import Descriptor
    from bloomdupe.store.participant import Part

FORMAT = 3
RECORD = ".collected"
LOCK = ".collected.lock"
LATER = "the missing items are still in Redis: run the same command again"
ANEW = "if nothing was deleted from Redis, collect all of it into a new directory"


class Collection:
    """The record of a directory of feeds; it takes the place of a job's store.

    The directory holds the files of the feeds, ``.collected.lock``, which a single
    process locks, ``.collected.feeds`` with the pieces and the journal of the feeds,
    and ``.collected``, the record, in JSON:

    ``format``    3; any other format is refused
    ``frontier``  the mark that identifies the crawl
    ``position``  the output up to there is durable here
    ``entries``   see :class:`~bloomdupe.feeds.stored_feeds.StoredFeeds`

    So after any end of the process, record, pieces, journal and files together hold all
    items up to the position.
    """

    def __init__(self, directory: Path, output: StreamOutput) -> None:
        self.directory = directory
        self.is_new = False
        """Whether it was begun by this process."""
        self._output = output
        self._lock: Descriptor | None = None
        self._record: dict[str, Any] = {}

    @classmethod
    def open(cls, directory: Path, output: StreamOutput, *, rest: bool) -> Self:
        """Open a collection that was begun, or begin a collection.

        Raises :class:`~bloomdupe.errors.StoreLockedError` if another process has it,
        and :class:`~bloomdupe.errors.StoreMismatchError` if it is of another crawl.
        """
        start = output.start(rest=rest)
        collection = cls(directory, output)
        with contextlib.ExitStack() as undo:
            undo.callback(collection.close)
            with explained(f"cannot collect into {directory}", directory):
                make_directory(directory)
                collection._lock = lock_owner(directory, LOCK)
                collection._read(start)
            undo.pop_all()
        return collection

    @property
    def store(self) -> Path:
        """The path beside which the pieces and the journal are."""
        return self.directory / RECORD

    @property
    def position(self) -> Any:  # noqa: ANN401 - JSON of the output
        """The position in the output up to which it is durable here."""
        return self._record["position"]

    @property
    def entries(self) -> dict[str, Any]:
        """The entries of the feeds, as of the last commit."""
        return dict(self._record["entries"])

    def commit(self, part: Part, position: Any) -> None:  # noqa: ANN401 - JSON
        """Make a part of the feeds durable, with the output up to this position.

        Raises :class:`~bloomdupe.errors.StoreError`; then the last commit stands.
        """
        record = {
            "format": FORMAT,
            "frontier": self._output.mark,
            "position": position,
            "entries": part.entries,
        }
        what = f"cannot write into {self.directory}"
        with explained(what, self.directory, LATER):
            write_json(self.store, record)
        self._record = record

    def close(self) -> None:
        """Release the directory; nothing is written."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _read(self, start: Any) -> None:  # noqa: ANN401 - JSON
        """Read the record; refuse a damaged record, or that of another crawl."""
        try:
            record = read_json(self.store)
            if record is None:
                self.is_new = True
                self._record = {"position": start, "entries": {}}
                return
            self._check(record)
            self._record = record
            _ = self.position, self.entries
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, StoreMismatchError):
                raise
            raise StoreDamagedError(
                f"{self.store} is damaged: {error}. Put it back as it was; or, {ANEW}"
            ) from error

    def _check(self, record: dict[str, Any]) -> None:
        if record["format"] != FORMAT:
            raise StoreMismatchError(
                f"{self.store} has format {record['format']!r}, this version of"
                f" bloomdupe reads format {FORMAT}; use the version that wrote it"
            )
        if record["frontier"] != self._output.mark:
            raise StoreMismatchError(
                f"{self.directory} was collected from another crawl, or before"
                f" {self._output.shown} was made anew. Collect into another directory"
            )
