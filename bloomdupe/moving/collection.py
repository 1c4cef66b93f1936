"""Collection: a directory with the output of a shared crawl, and its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreDamagedError, StoreMismatchError
from bloomdupe.store.files import lock_owner, make_directory, read_json, write_json
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.moving.stream_output import StreamOutput
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

    It is begun if it is not there. Raises
    :class:`~bloomdupe.errors.StoreLockedError` if another process has it.
    """

    def __init__(self, directory: Path, output: StreamOutput, *, rest: bool) -> None:
        self.directory = directory
        self.store = directory / RECORD
        """The path beside which the pieces and the journal are."""
        self.position = output.start(rest=rest)
        """The position in the output up to which it is durable here."""
        self.entries: dict[str, Any] = {}
        """The entries of the feeds, as of the last commit."""
        self._mark = output.mark
        with explained(f"cannot collect into {directory}", directory):
            make_directory(directory)
            self._lock = lock_owner(directory, LOCK)
            try:
                self.is_new = not self._read(output.shown)
                """Whether it was begun by this process."""
            except BaseException:
                self.close()
                raise

    def commit(self, part: Part, position: str) -> None:
        """Make a part of the feeds durable, with the output up to this position.

        Raises :class:`~bloomdupe.errors.StoreError`; then the last commit stands.
        """
        record = {
            "format": FORMAT,
            "frontier": self._mark,
            "position": position,
            "entries": part.entries,
        }
        what = f"cannot write into {self.directory}"
        with explained(what, self.directory, LATER):
            write_json(self.store, record)
        self.position, self.entries = position, part.entries

    def close(self) -> None:
        """Release the directory; nothing is written."""
        self._lock.close()

    def _read(self, shown: str) -> bool:
        """Read the record, if there is one.

        Raises :class:`~bloomdupe.errors.StoreDamagedError`, or
        :class:`~bloomdupe.errors.StoreMismatchError` for that of another crawl.
        """
        try:
            record = read_json(self.store)
            if record is None:
                return False
            self.position = str(record["position"])
            self.entries = dict(record["entries"])
            format_, mark = record["format"], record["frontier"]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StoreDamagedError(
                f"{self.store} is damaged: {error}. Put it back as it was; or, {ANEW}"
            ) from error
        if format_ != FORMAT:
            raise StoreMismatchError(
                f"{self.store} has format {format_!r}, this version of bloomdupe reads"
                f" format {FORMAT}; use the version that wrote it"
            )
        if mark != self._mark:
            raise StoreMismatchError(
                f"{self.directory} was collected from another crawl, or before {shown}"
                " was made anew. Collect into another directory"
            )
        return True
