"""StoredFeeds: the feeds of the last run, in the store and in the files."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.feeds.feed import WaitingFeed
from bloomdupe.feeds.feed_format import changed_options, options_of
from bloomdupe.feeds.file import FeedFile, change_of
from bloomdupe.feeds.journal import Journal, Piece
from bloomdupe.store.files import make_directory, read_json, refuse_link, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from scrapy.extensions.feedexport import FeedSlot


ANEW = "give the new crawl another JOBDIR"


class StoredFeeds:
    """The feeds of the last run.

    ``record`` is that of the last commit to the ``store``, a directory. No path in it
    is followed: places come from the settings of this run. It has:

    ``feeds``           by name, see :class:`~bloomdupe.feeds.feed.Feed` and
                        :class:`~bloomdupe.feeds.feed.WaitingFeed`
    ``lines``           and ``journal``: see :class:`~bloomdupe.feeds.journal.Journal`
    ``feeds_moment``    the time that names of files have
    ``feeds_finished``  whether the crawl had finished

    ``resumed`` says that the crawl goes on, even if it had finished, and does not begin
    anew. The files of a finished crawl belong to the user, who may change them in any
    way. The same holds for the file of a feed that is ``done``: it was complete when
    the crawl had finished, and the run that has found new work did without it.

    ``anew`` says in errors how to begin with other files.
    """

    def __init__(
        self, record: dict[str, Any], store: Path, *, resumed: bool, anew: str = ANEW
    ) -> None:
        self._anew = anew
        self.directory = store.with_name(f"{store.name}.feeds")
        """The directory of a job for output that is not in its feeds yet."""
        self.lines = Journal(self.directory, "lines", record.get("lines", {}))
        """The pieces of the last checkpoint."""
        self.journal = Journal(self.directory, "items", record.get("journal", {}))
        """The items for feeds that wait for the end of the crawl."""
        self.delivered = Delivered(self.journal)
        self.finished = bool(record.get("feeds_finished", False))
        """Whether the crawl had finished."""
        self.resumed = resumed
        self.moment = datetime.now(tz=timezone.utc)
        """The time that names of files have: when the crawl has begun."""
        if resumed and "feeds_moment" in record:
            self.moment = datetime.fromisoformat(record["feeds_moment"])
        self._feeds: dict[str, dict[str, Any]] = dict(record.get("feeds", {}))
        self._indexes = {f["index"] for f in self._feeds.values() if "index" in f}

    def _is_begun(self, record: dict[str, Any]) -> bool:
        """Whether the crawl goes on with a feed: it gets the items still to come."""
        return self.resumed and not self.finished and not record.get("done")

    def _owes(self, name: str, record: dict[str, Any]) -> bool:
        """Whether a feed lacks committed items."""
        if "index" in record:
            delivered = self.delivered.get(name, record["begin"])
            return self.delivered.lacks(record["index"], delivered)
        file = record["file"]
        return file is not None and bool(file["size"] > file["base"])

    def _is_bound(self, name: str, record: dict[str, Any]) -> bool:
        """Whether a run must have a feed as it was left."""
        return self._is_begun(record) or self._owes(name, record)

    @property
    def owing(self) -> bool:
        """Whether a feed lacks items of the journal."""
        return any(self._owes(n, f) for n, f in self._feeds.items() if "index" in f)

    def close(self) -> None:
        """Release the files of the job; nothing is written."""
        self.lines.close()
        self.journal.close()

    # Before anything is changed

    def check(self, feeds: Mapping[str, tuple[dict[str, Any], Path | None]]) -> None:
        """Refuse to go on with other feeds, or files, than those of the last run.

        ``feeds`` are those of this run, by name: the options, and the file to which it
        is appended, or None if it waits for the end of the crawl. Raises
        :class:`~bloomdupe.errors.FeedError`.
        """
        refuse_link(self.directory)
        bound = {n: f for n, f in self._feeds.items() if self._is_bound(n, f)}
        for name in bound.keys() & feeds.keys():
            self._check(bound[name], *feeds[name])
        lacking = [record["uri"] for n, record in bound.items() if n not in feeds]
        if lacking:
            raise FeedError(
                f"this crawl has begun with a feed {' and '.join(lacking)}, which this"
                " run lacks: items would be missing there. Give it"
                f" again (the same arguments of the spider, -o {' -o '.join(lacking)},"
                f" or FEEDS); or {self._anew}"
            )

    def _check(
        self, record: dict[str, Any], options: dict[str, Any], place: Path | None
    ) -> None:
        change: str | None = None
        if ("index" in record) != (place is None):
            change = (
                "was begun with another exporter or storage, see FEED_EXPORTERS and"
                " FEED_STORAGES"
            )
        elif place is not None and self._is_begun(record):
            change = changed_options(record["options"], options_of(options))
        if change:
            raise FeedChangedError(
                f"FEEDS: {record['uri']} {change}: set it back, name another file, or"
                f" {self._anew}"
            )
        file = None if place is None else self._file_of(record, place)
        if place is None or file is None:
            return
        piece = Piece(self.lines, record["number"])
        change = change_of(file["base"], file["size"], place, piece)
        if change:
            raise FeedChangedError(
                f"the feed {place} {change} since the last run, which left"
                f" {file['size']} bytes in it. Put it back as it was, or {self._anew}"
            )

    # The feeds

    @cached_property
    def _has_pieces(self) -> bool:
        """Whether the pieces of the last checkpoint are as they were written."""
        try:
            return all(True for _ in self.lines.records())
        except FeedError:
            return False

    def _file_of(self, record: dict[str, Any], place: Path) -> dict[str, Any] | None:
        """Return the file of a feed as the last run has left it.

        A backup goes on without the pieces of its time. A file of the right length has
        them: only a power cut leaves holes in it, and the pieces outlive that.
        """
        file: dict[str, Any] | None = record["file"]
        if file is None or file["size"] == file["base"] or self._has_pieces:
            return file
        complete = place.exists() and place.stat().st_size == file["size"]
        return {**file, "base": file["size"]} if complete else file

    def take(
        self, name: str, options: dict[str, Any], place: Path
    ) -> tuple[dict[str, Any] | None, FeedFile]:
        """Return the record of a feed of this run, None if it is new, and its file.

        The file is completed. Raises :class:`~bloomdupe.errors.FeedError`.
        """
        record = self._feeds.pop(name, None)
        new = FeedFile(place, overwrite=bool(options.get("overwrite")))
        if record is None or "index" in record:
            return None, new
        new.ours = self.resumed and record["ours"]
        bound = self._is_bound(name, record)
        left = self._file_of(record, place) if bound else None
        file = new if left is None else FeedFile(place, left)
        # A power cut may have left a hole even in a file that has its end.
        file.append(Piece(self.lines, record["number"]))
        file.sync()
        if self.resumed and not changed_options(record["options"], options_of(options)):
            return record, file
        file.close()
        return None, new

    def take_waiting(self, name: str, slot: FeedSlot) -> WaitingFeed:
        """Return a feed of this run that is written from the journal."""
        record = self._feeds.pop(name, None)
        if record is None or "index" not in record:
            index = next(n for n in count() if n not in self._indexes)
            self._indexes.add(index)
            return WaitingFeed(name, slot, index, self.journal.end)
        if not (self.resumed or self._owes(name, record)):
            return WaitingFeed(name, slot, record["index"], self.journal.end)
        slot.itemcount = record["items"]
        return WaitingFeed(name, slot, record["index"], record["begin"])

    def lost(self) -> dict[str, dict[str, Any]]:
        """Return the records of the feeds that this run does not have."""
        done = {"done": True} if self.finished else {}
        return {n: {**f, **done} for n, f in self._feeds.items() if self.resumed}


class Delivered:
    """What is delivered of the items in a journal.

    It is no part of the store, because a storage answers when the store is closed. For
    each feed, by name:

    ``journal``  turn of the journal
    ``begin``    position in it at which the delivered round begins
    ``end``      position up to which the items are delivered
    ``batch``    number of the next batch
    ``time``     when a batch has begun that is not complete; for its name
    ``target``   of a local file, see :class:`~bloomdupe.feeds.delivery.Target`; of a
                 batch only until it is complete
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._place = journal.place.with_name("delivered")

    def get(self, name: str, begin: int) -> dict[str, Any]:
        """Return the record of a feed whose round begins there."""
        new = {"journal": self._journal.turn, "begin": begin, "end": begin, "batch": 1}
        found: dict[str, Any] = self._read().get(name, new)
        same = all(found[key] == new[key] for key in ("journal", "begin"))
        return found if same else new

    def lacks(self, index: int, record: dict[str, Any]) -> bool:
        """Whether a feed with this record and index lacks items of the journal."""
        return any(True for _ in self._journal.of(index, record["end"]))

    def put(self, name: str, record: dict[str, Any]) -> None:
        """Set the record of a feed, durably."""
        make_directory(self._place.parent, 0o700)
        write_json(self._place, {**self._read(), name: record})

    def _read(self) -> dict[str, Any]:
        try:
            return read_json(self._place) or {}
        except (OSError, ValueError) as error:
            raise FeedError(
                f"{self._place}, which says what is delivered, cannot be read: {error}."
                " Put it back from a backup; without it all is delivered again"
            ) from error
