"""StoredFeeds: the feeds of the last run, in the store and in the files."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from itertools import count
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.feeds.delivered import Delivered
from bloomdupe.feeds.feed import HELD, Known
from bloomdupe.feeds.feed_format import changed_options, options_of
from bloomdupe.feeds.file import FeedFile, change_of
from bloomdupe.feeds.journal import Journal, Piece
from bloomdupe.store.files import refuse_link
from bloomdupe.store.system_errors import explained

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ANEW = "give the new crawl another JOBDIR"


def directory_of(store: Path) -> Path:
    """Return the directory of a job for output that is not in its feeds yet."""
    return store.with_name(f"{store.name}.feeds")


class StoredFeeds:
    """The feeds of the last run.

    ``record`` is that of the last commit to the ``store``, a directory. No path in it
    is followed: places come from the settings of this run. It has:

    ``feeds``           by name, see :class:`~bloomdupe.feeds.feed.Feed` and
                        :class:`~bloomdupe.feeds.waiting.WaitingFeeds`
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
        self.directory = directory_of(store)
        self.lines = Journal(self.directory, "lines", record.get("lines", {}))
        """The pieces of the last checkpoint, and the lines that are held."""
        self.journal = Journal(self.directory, "items", record.get("journal", {}))
        """The items for feeds that wait for the end of the crawl."""
        self.delivered = Delivered(self.journal)
        self.finished = bool(record.get("feeds_finished", False))
        """Whether the crawl had finished."""
        self.resumed = resumed
        self.moment = datetime.now(tz=timezone.utc)
        """The time that names of files have: when the crawl has begun."""
        if resumed and "feeds_moment" in record:
            with suppress(ValueError):
                self.moment = datetime.fromisoformat(record["feeds_moment"])
        self._feeds: dict[str, dict[str, Any]] = dict(record.get("feeds", {}))
        self._indexes = {f["index"] for f in self._feeds.values() if "index" in f}
        self._bound = resumed and not self.finished

    def _is_begun(self, record: dict[str, Any]) -> bool:
        """Whether the crawl goes on with a feed: it gets the items still to come."""
        return self._bound and not record.get("done")

    def _is_bound(self, record: dict[str, Any]) -> bool:
        """Whether a run must have a feed as it was left.

        The crawl goes on with it; or its file is due, or lacks lines.
        """
        file = record["file"]
        owed = file is not None and (file["due"] or record["held"])
        return self._is_begun(record) or bool(owed)

    def close(self) -> None:
        """Release the files of the job; nothing is written."""
        self.lines.close()
        self.journal.close()

    # Before anything is changed

    def check_feeds(self, feeds: Mapping[str, dict[str, Any]]) -> None:
        """Refuse to go on with feeds that differ from those of the last run.

        ``feeds`` are the options of the feeds of this run, by name. Raises
        :class:`~bloomdupe.errors.FeedError`.
        """
        refuse_link(self.directory)
        lacking = []
        for name, record in self._feeds.items():
            if name not in feeds:
                if self._is_bound(record):
                    lacking.append(record["uri"])
            elif self._is_begun(record) and "options" in record:
                self._check_options(record, feeds[name])
        if lacking:
            raise FeedError(
                f"this crawl has begun with a feed {' and '.join(lacking)}, which this"
                " run lacks: the items still to come would be missing there. Give it"
                f" again (the same arguments of the spider, -o {' -o '.join(lacking)},"
                f" or FEEDS); or {self._anew}"
            )

    def _check_options(self, record: dict[str, Any], options: dict[str, Any]) -> None:
        changed = changed_options(record["options"], options_of(options))
        if changed:
            was, has = changed
            raise FeedChangedError(
                f"FEEDS: {record['uri']} was begun with {was}, now it has {has}:"
                f" set it back, name another file, or {self._anew}"
            )

    def check_feed(self, name: str, place: Path | None) -> None:
        """Refuse a feed whose file was changed since the last run.

        ``place`` is the file to which it is appended; None if it waits for the end of
        the crawl. It must go the same way as in the last run. Raises
        :class:`~bloomdupe.errors.FeedError`.
        """
        record = self._feeds.get(name)
        if record is None or not self._is_bound(record):
            return
        if ("index" in record) != (place is None):
            raise FeedChangedError(
                f"FEEDS: {record['uri']} was begun with another exporter or storage,"
                " see FEED_EXPORTERS and FEED_STORAGES: set it back, name another file,"
                f" or {self._anew}"
            )
        file = record["file"]
        if file is None or place is None:
            return
        change = change_of(file, place, Piece(self.lines, record["number"]))
        if change:
            raise FeedChangedError(
                f"the feed {place} {change} since the last run, which left"
                f" {file['size']:,} bytes in it. Put it back as it was, or {self._anew}"
            )

    # The feeds

    def take(self, name: str, options: dict[str, Any], place: Path) -> Known:
        """Return the state of a feed of this run; complete its file.

        Raises :class:`~bloomdupe.errors.FeedError`.
        """
        record = self._feeds.pop(name, None)
        if record is None or "index" in record:
            return Known(name)
        file = None
        found, bound = record["file"], self._is_bound(record)
        piece = Piece(self.lines, record["number"])
        if found is not None and (bound or not change_of(found, place, piece)):
            with explained(f"cannot continue the feed {place}", place):
                file = FeedFile.of(found, place)
                if found["due"]:
                    file.finish(found, piece)
        same = not changed_options(record["options"], options_of(options))
        if not self.resumed and (options.get("overwrite") or file is None):
            same = False
        if not same:
            if file is not None:
                file.close()
            return Known(name, ours=self.resumed)
        held = b"".join(Piece(self.lines, HELD | record["number"]))
        return Known(name, record, file, held, ours=record["file"] is not None)

    def take_waiting(self, name: str) -> tuple[int, int, int]:
        """Return what is known of a feed of this run that is written from the journal.

        It is the feed's index in the journal, where its round begins there, and the
        number of its items in this round.
        """
        record = self._feeds.pop(name, None)
        if record is None or "index" not in record:
            index = next(n for n in count() if n not in self._indexes)
            self._indexes.add(index)
            return index, self.journal.end, 0
        index, begin, items = record["index"], record["begin"], record["items"]
        if not self.resumed and not self._owes(name, record):
            return index, self.journal.end, 0
        return index, begin, items

    def _owes(self, name: str, record: dict[str, Any]) -> bool:
        """Whether a feed lacks items of the journal."""
        if "index" not in record:
            return False
        delivered = self.delivered.get(name, record["begin"])
        return self.delivered.lacks(record["index"], delivered)

    def owing(self) -> dict[str, dict[str, Any]]:
        """Return the records of feeds that lack items of the journal."""
        return {n: feed for n, feed in self._feeds.items() if self._owes(n, feed)}

    def lost(self) -> dict[str, dict[str, Any]]:
        """Return the records of the feeds that this run does not have."""
        lost = self._feeds if self.resumed else self.owing()
        done = {"done": True} if self.finished else {}
        return {name: {**record, **done} for name, record in lost.items()}
