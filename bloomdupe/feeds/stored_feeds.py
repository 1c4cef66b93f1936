"""StoredFeeds: the feeds of the last run, in the store and in the files."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.feeds.appended_feed import AppendedFeed
from bloomdupe.feeds.feed import WaitingFeed, waits
from bloomdupe.feeds.feed_format import appended_path, changed_options
from bloomdupe.feeds.journal import Journal
from bloomdupe.store.files import make_directory, read_json, refuse_link, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from scrapy.extensions.feedexport import FeedSlot

    from bloomdupe.feeds.feed import Feed

ANEW = "give the new crawl another JOBDIR"


class StoredFeeds:
    """The feeds of the last run.

    ``record`` is that of the last commit to the ``store``, a directory. No path in it
    is followed: places come from the settings of this run. It has:

    ``feeds``           by name, see :class:`~bloomdupe.feeds.feed.Feed`
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
        self.lines = Journal(self.directory / "lines", record.get("lines", {}))
        """The pieces of the last checkpoint."""
        self.journal = Journal(self.directory / "items", record.get("journal", {}))
        """The items for feeds that wait for the end of the crawl."""
        self.delivered = Delivered(self.journal)
        self.finished = bool(record.get("feeds_finished", False))
        """Whether the crawl had finished."""
        self.resumed = resumed
        self.moment = datetime.now(tz=timezone.utc)
        """The time that names of files have: when the crawl has begun."""
        if resumed and "feeds_moment" in record:
            self.moment = datetime.fromisoformat(record["feeds_moment"])
        self._records: dict[str, dict[str, Any]] = dict(record.get("feeds", {}))
        numbers = [feed["number"] for feed in self._records.values()]
        self._next_number = 1 + max(numbers, default=-1)

    def _goes_on(self, record: dict[str, Any]) -> bool:
        """Whether the crawl goes on with a feed: it gets the items still to come."""
        return self.resumed and not self.finished and not record.get("done")

    def _owes(self, name: str, record: dict[str, Any]) -> bool:
        """Whether a feed lacks committed items."""
        if waits(record):
            delivered = self.delivered.get(name, record["begin"])
            return self.delivered.lacks(record["number"], delivered)
        return record["size"] not in (None, record["base"])

    def _is_bound(self, name: str, record: dict[str, Any]) -> bool:
        """Whether a run must have a feed as it was left."""
        return self._goes_on(record) or self._owes(name, record)

    # Before anything is changed

    def feed(self, name: str, slot: FeedSlot, here: Path) -> Feed:
        """Return a feed of this run, which has not gone on yet.

        Relative paths begin ``here``.
        """
        number = self._records.get(name, {}).get("number", self._next_number)
        self._next_number = max(self._next_number, number + 1)
        place = appended_path(slot, here)
        if place is None:
            return WaitingFeed(name, slot, number)
        return AppendedFeed(name, slot, number, place, self.lines)

    def check(self, feeds: Iterable[Feed]) -> None:
        """Refuse to go on with other feeds, or files, than those of the last run.

        Raises :class:`~bloomdupe.errors.FeedError`.
        """
        refuse_link(self.directory)
        bound = {n: f for n, f in self._records.items() if self._is_bound(n, f)}
        for feed in feeds:
            if feed.name in bound:
                self._check(feed, bound.pop(feed.name))
        lacking = [record["uri"] for record in bound.values()]
        if lacking:
            raise FeedError(
                f"this crawl has begun with a feed {' and '.join(lacking)}, which this"
                " run lacks: items would be missing there. Give it"
                f" again (the same arguments of the spider, -o {' -o '.join(lacking)},"
                f" or FEEDS); or {self._anew}"
            )

    def _check(self, feed: Feed, old: dict[str, Any]) -> None:
        change = ""
        if waits(old) != waits(feed.record):
            change = (
                "was begun with another exporter or storage, other postprocessing or"
                " batches (FEED_EXPORTERS and FEED_STORAGES count, too)"
            )
        elif self._goes_on(old):
            change = changed_options(old["options"], feed.record["options"])
        if change:
            raise FeedChangedError(
                f"FEEDS: {old['uri']} {change}: set it back, name another file, or"
                f" {self._anew}"
            )
        if isinstance(feed, AppendedFeed):
            found = feed.change_since(feed.left_by(old))
            if found is not None:
                raise FeedChangedError(
                    f"the feed {feed.place} {found} since the last run, which left"
                    f" {old['size']} bytes in it. Put it back as it was, or"
                    f" {self._anew}"
                )

    # Going on

    def go_on(self, feeds: Iterable[Feed]) -> None:
        """Let the feeds of this run go on; files get the lines that they lack.

        Raises :class:`~bloomdupe.errors.FeedError`.
        """
        owing = any(self._owes(n, f) for n, f in self._records.items() if waits(f))
        self.journal.begin(anew=not self.resumed and not owing)
        for feed in feeds:
            if waits(feed.record):
                feed.record["begin"] = self.journal.end
            old = self._records.pop(feed.name, None)
            if old is not None and waits(old) == waits(feed.record):
                bound = self._is_bound(feed.name, old)
                old.pop("done", None)
                feed.restore(old, bound=bound, resumed=self.resumed)

    @property
    def lost(self) -> dict[str, dict[str, Any]]:
        """The records of the feeds that this run does not have."""
        done = {"done": True} if self.finished else {}
        return {n: {**f, **done} for n, f in self._records.items() if self.resumed}


class Delivered:
    """What is delivered of the items in a journal.

    It is no part of the store, because a storage answers when the store is closed. For
    each feed, by name:

    ``journal``  turn of the journal
    ``begin``    position in it at which the delivered round begins
    ``end``      position up to which the items are delivered
    ``batch``    number of the next batch
    ``again``    batches before this number are delivered again, and replaced
    ``bases``    bytes before the items of a batch, by its number, if there are any
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

    def go_back(self) -> None:
        """Deliver all anew if the store has gone back, because it is from a backup.

        Other items may come now after those that it has. Only the owner of the store
        knows that it has not gone on since.
        """
        records, journal = self._read(), self._journal
        later = [
            one
            for one in records.values()
            if one["journal"] == journal.turn and one["end"] > journal.size
        ]
        for one in later:
            again = max(one["batch"], one.get("again", 0))
            one |= {"end": one["begin"], "batch": 1, "again": again}
        if later:
            write_json(self._place, records)

    def lacks(self, index: int, record: dict[str, Any]) -> bool:
        """Whether a feed with this record and index lacks items of the journal."""
        return any(True for _ in self._journal.of(index, record["end"]))

    def put(self, name: str, record: dict[str, Any]) -> None:
        """Set the record of a feed, durably."""
        make_directory(self._place.parent, 0o700)
        write_json(self._place, {**self._read(), name: record})

    def _read(self) -> dict[str, Any]:
        try:
            found = read_json(self._place) or {}
            for one in found.values():
                for name in ("journal", "begin", "end", "batch"):
                    if not isinstance(one[name], int):
                        raise TypeError(f"{name} is no integer")
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise FeedError(
                f"{self._place}, which says what is delivered, cannot be read: {error}."
                " Put it back from a backup; without it all is delivered again"
            ) from error
        return found
