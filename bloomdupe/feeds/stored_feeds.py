"""StoredFeeds: the feeds of the last run, in the store and in the files."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime, timezone
from itertools import count
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.feeds.feed import HELD, Known
from bloomdupe.feeds.feed_format import changed_options, options_of
from bloomdupe.feeds.file import FeedFile, change_of, reading
from bloomdupe.feeds.journal import Journal
from bloomdupe.feeds.pieces import Pieces
from bloomdupe.feeds.uri import fits, parameters
from bloomdupe.store.files import refuse_link

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bloomdupe.feeds.delivery import Deliveries

ENTRIES = ("feeds", "files", "pieces", "journal", "feeds_moment", "feeds_finished")
ANEW = "give the new crawl another JOBDIR"


def directory_of(store: Path) -> Path:
    """Return the directory of a job for output that is not in its feeds yet."""
    return store.with_name(f"{store.name}.feeds")


class StoredFeeds:
    """The feeds of the last run.

    ``record`` and ``blobs`` are those of the last commit to the ``store``, a directory.
    No path in them is followed: places come from the settings of this run.

    ``resumed`` says that the crawl goes on, even if it had finished, and does not begin
    anew. The files of a finished crawl belong to the user, who may change them in any
    way. The same holds for the file of a feed that is ``done``: it was complete when
    the crawl had finished, and the run that has found new work did without it.

    ``anew`` says in errors how to begin with other files.
    """

    def __init__(
        self,
        record: dict[str, Any],
        blobs: Mapping[str, bytes],
        store: Path,
        *,
        resumed: bool,
        anew: str = ANEW,
    ) -> None:
        self._blobs = blobs
        self._anew = anew
        self.directory = directory_of(store)
        self.pieces = Pieces(self.directory, record.get("pieces", {}))
        self.journal = Journal(self.directory, record.get("journal", {}))
        self.finished = bool(record.get("feeds_finished", False))
        """Whether the crawl had finished."""
        self.resumed = resumed
        self.moment = datetime.now(tz=timezone.utc)
        """The time that names of files have: when the crawl has begun."""
        if resumed and "feeds_moment" in record:
            with suppress(ValueError):
                self.moment = datetime.fromisoformat(record["feeds_moment"])
        self.entries = {name: record[name] for name in ENTRIES if name in record}
        """As they are in the store."""
        self._feeds: dict[str, dict[str, Any]] = dict(record.get("feeds", {}))
        self._files: list[dict[str, Any]] = record.get("files", [])
        self._indexes = {f["index"] for f in self._feeds.values() if "index" in f}
        self._bound = resumed and not self.finished

    @property
    def held(self) -> set[str]:
        """Names of the values with lines that are held."""
        return {name for name in self._blobs if name.startswith(HELD)}

    def _file_of(self, record: dict[str, Any]) -> dict[str, Any] | None:
        return None if record["file"] is None else self._files[record["file"]]

    def _owes(self, record: dict[str, Any]) -> bool:
        """Whether a file is due, or lacks lines that are committed."""
        file = self._file_of(record)
        return file is not None and (file["due"] or record["held"])

    # Before anything is changed

    def name_of(self, own: str, place: Path | None) -> str:
        """Return the name in the store of a feed that has this name of its ``own``.

        Another run may have written its URI differently; then its file is at ``place``.
        """
        if own in self._feeds or place is None:
            return own
        for name, record in self._feeds.items():
            file = self._file_of(record)
            if file is not None and _is_same(file["path"], place):
                return name
        return own

    def check_feeds(self, feeds: Mapping[str, dict[str, Any]]) -> None:
        """Refuse to go on with feeds that differ from those of the last run.

        ``feeds`` are the options of the feeds of this run, by name. A name that still
        has parameters may be that of any feed that fits it. Raises
        :class:`~bloomdupe.errors.FeedError`.
        """
        refuse_link(self.directory)
        late = [name for name in feeds if parameters(name)]
        lacking = []
        for name, record in self._feeds.items():
            begun = self._bound and not _is_done(record)
            if name not in feeds and (begun or self._owes(record)):
                if not any(fits(name, one) for one in late):
                    lacking.append(record["uri"])
            elif begun and name in feeds and "options" in record:
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

    def check_kind(self, name: str, *, waits: bool) -> None:
        """Refuse a feed whose items go another way than in the last run."""
        record = self._feeds.get(name)
        if record is None or ("index" in record) == waits:
            return
        if (self._bound and not _is_done(record)) or self._owes(record):
            raise FeedChangedError(
                f"FEEDS: {record['uri']} was begun with another exporter or storage,"
                " see FEED_EXPORTERS and FEED_STORAGES: set it back, name another file,"
                f" or {self._anew}"
            )

    def check_file(self, name: str, place: Path) -> None:
        """Refuse a file that was changed since the last run.

        Raises :class:`~bloomdupe.errors.FeedError`.
        """
        record = self._feeds.get(name, {"file": None})
        file = self._file_of(record)
        if file is None or not self._is_bound(record):
            return
        change = change_of(file, place, self.pieces.of(record["number"]))
        if change:
            raise FeedChangedError(
                f"the feed {file['path']} {change} since the last run, which left"
                f" {file['size']:,} bytes in it. Put it back as it was, or {self._anew}"
            )

    def _is_bound(self, record: dict[str, Any]) -> bool:
        return (self._bound and not _is_done(record)) or self._owes(record)

    # The feeds

    def take(self, name: str, options: dict[str, Any], place: Path) -> Known:
        """Return the state of a feed of this run; complete its file.

        Raises :class:`~bloomdupe.errors.FeedError`.
        """
        record = self._feeds.pop(name, None)
        if record is None or "index" in record:
            return Known(name)
        file = None
        found, bound = self._file_of(record), self._is_bound(record)
        piece = self.pieces.of(record["number"])
        if found is not None and (bound or not change_of(found, place, piece)):
            with reading(found["path"]):
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
        held = self._blobs.get(f"{HELD}{record['number']}", b"")
        return Known(name, record, file, held, ours=record["file"] is not None)

    def take_waiting(self, name: str, deliveries: Deliveries) -> tuple[int, int, int]:
        """Return what is known of a feed of this run that is written from the journal.

        It is the feed's index in the journal, where its round begins there, and the
        number of its items in this round.
        """
        record = self._feeds.pop(name, None)
        if record is None or "index" not in record:
            index = next(n for n in count() if n not in self._indexes)
            self._indexes.add(index)
            return index, self.journal.size, 0
        index, begin, items = record["index"], record["begin"], record["items"]
        if not self.resumed and not deliveries.owes(name, index, begin):
            return index, self.journal.size, 0
        return index, begin, items

    def owing(self, deliveries: Deliveries) -> dict[str, dict[str, Any]]:
        """Return the records of feeds that lack items of the journal."""
        return {
            name: record
            for name, record in self._feeds.items()
            if "index" in record
            and deliveries.owes(name, record["index"], record["begin"])
        }

    def lost(
        self, deliveries: Deliveries
    ) -> dict[str, tuple[dict[str, Any], dict[str, Any] | None]]:
        """Return record and file of the feeds that this run does not have."""
        lost = self._feeds if self.resumed else self.owing(deliveries)
        done = {"done": True} if self.finished else {}
        return {
            name: ({**record, **done}, self._file_of(record))
            for name, record in lost.items()
        }


def _is_done(feed: dict[str, Any]) -> bool:
    return bool(feed.get("done"))


def _is_same(one: str, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
