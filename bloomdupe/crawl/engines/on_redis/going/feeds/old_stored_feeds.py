"""OldStoredFeeds: the feeds of the last run, in the store and in the files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from bloomdupe.crawl.engines.on_redis.going.feeds.content import (
    Content,
    digest,
    ends_at,
    read_bytes,
    tail_of,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed import OldKnown
from bloomdupe.crawl.engines.on_redis.going.feeds.old_feed_format import (
    changed_options,
    options_of,
)
from bloomdupe.crawl.engines.on_redis.going.feeds.old_file import OldFeedFile
from bloomdupe.crawl.engines.on_redis.going.feeds.old_uri import fits, parameters
from bloomdupe.crawl.engines.on_redis.going.feeds.spool import placed, spool_of, stored
from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.printable import printable
from bloomdupe.store.files import refuse_link

if TYPE_CHECKING:
    from collections.abc import Mapping


ANOTHER_JOB = "give the new crawl another JOBDIR"


class OldMissingFeed(NamedTuple):
    """A feed that this run does not have; the store keeps it for a later run."""

    name: str
    record: dict[str, Any]
    file: dict[str, Any] | None
    held: bytes

    def keep(
        self,
        feeds: dict[str, Any],
        files: list[dict[str, Any]],
        blobs: dict[str, bytes],
    ) -> None:
        """Add the feed to the record, files and blobs of the next commit."""
        feeds[self.name] = {**self.record, "file": None}
        if self.file is not None:
            feeds[self.name]["file"] = len(files)
            if self.held:
                blobs[f"feed{len(files)}"] = self.held
            files.append(self.file)


class OldStoredFeeds:
    """The feeds of the last run.

    ``record`` and ``blobs`` are those of the last commit to the ``store``, a directory.
    Relative paths of files begin ``here``.
    ``resumed`` says that the crawl goes on, even if it had finished, and does not begin
    anew. The files of a finished crawl belong to the
    user, who may change them in any way. The same holds for the files of a feed that is
    ``done``: it was complete when the crawl had finished, and the run that has found
    new work did without it. ``anew`` tells the user how to begin anew.
    """

    def __init__(
        self,
        record: dict[str, Any],
        blobs: Mapping[str, bytes],
        store: Path,
        here: Path,
        *,
        resumed: bool,
        anew: str = ANOTHER_JOB,
    ) -> None:
        self._anew, self._store, self._here = anew, store, here
        self.spool = spool_of(store)
        """The directory of the spool."""
        self.deliveries: list[dict[str, Any]] = record.get("deliveries", [])
        self._feeds: dict[str, dict[str, Any]] = dict(record.get("feeds", {}))
        self._files = [
            placed(file, self.spool, here) for file in record.get("files", [])
        ]
        self._pieces: list[bytes] = []
        self._held: list[bytes] = []
        for number, file in enumerate(self._files):
            blob = blobs.get(f"feed{number}", b"")
            end = len(blob) - file.get("held", 0)
            self._pieces.append(blob[:end])
            self._held.append(blob[end:])
        self.finished = bool(record.get("feeds_finished", False))
        """Whether the crawl had finished."""
        self.resumed = resumed
        self._bound = resumed and not self.finished
        self._open: dict[int, OldFeedFile | None] = {}
        self._places: list[str] = []
        self._done = {feed["file"] for feed in self._feeds.values() if _is_done(feed)}

    def expect(self, places: list[str]) -> None:
        """Set the files of the feeds of this run, as templates of absolute paths.

        No other file is ever read or changed, except in the spool.
        """
        self._places = places

    def _placed(self, number: int) -> dict[str, Any]:
        """Return the record of a file, if a feed of this run names the file.

        Raises :class:`~bloomdupe.errors.FeedError` if none does: a job may come from a
        stranger.
        """
        record = self._files[number]
        place = os.path.normpath(record["place"])
        if not record.get("spooled") and not any(
            fits(place, os.path.normpath(named)) or _is_same(place, named)
            for named in self._places
        ):
            raise FeedError(
                f"the store has output for {printable(place)}, which no feed of this"
                f" run names: give the feed again that names it, or {self._anew}"
            )
        return record

    def check(self) -> None:
        """Refuse to go on with files that were changed since the last run.

        Raises :class:`~bloomdupe.errors.FeedError`, if :meth:`expect` did not name the
        file or it was changed, and :class:`~bloomdupe.errors.StoreError`, if a link is
        in the place of the spool.
        """
        refuse_link(self.spool)
        for number, piece in enumerate(self._pieces):
            if not self._owes(number):
                continue
            record = self._placed(number)
            change = change_of(record, piece)
            if change:
                refuse(record, piece, change, self._anew)

    def check_feeds(self, feeds: Mapping[str, dict[str, Any]]) -> None:
        """Refuse to go on with feeds that differ from those of the last run.

        ``feeds`` are the options of the feeds of this run, by name. A name that still
        has parameters may be that of any feed that fits it. Raises
        :class:`~bloomdupe.errors.FeedError`.
        """
        if not self._bound:
            return
        for name, options in feeds.items():
            record = self._feeds.get(name)
            if record is None or _is_done(record):
                continue
            changed = changed_options(record["options"], options_of(options))
            if changed:
                was, has = changed
                raise FeedChangedError(
                    f"FEEDS: {record['uri']} was begun with {was}, now it has {has}:"
                    f" set it back, name another file, or {self._anew}"
                )
        late = [name for name in feeds if parameters(name)]
        uris = [
            record["uri"]
            for name, record in self._feeds.items()
            if name not in feeds
            and not _is_done(record)
            and not any(fits(record["uri"], one) for one in late)
        ]
        if uris:
            raise FeedError(
                f"this crawl has begun with a feed {' and '.join(uris)}, which this run"
                " lacks: the items still to come would be missing there. Give it again"
                f" (the same arguments of the spider, -o {' -o '.join(uris)}, or"
                f" FEEDS); or {self._anew}"
            )

    def finish(self) -> None:
        """Write missing pieces to the files, and cut off lines that are not settled.

        Raises :class:`~bloomdupe.errors.FeedError`.
        """
        numbers = {feed["file"] for feed in self._feeds.values()}
        for number, piece in enumerate(self._pieces):
            if self._owes(number):
                record = self._placed(number)
                file = _finished(record, piece, self._held[number])
                if number in numbers:
                    self._open[number] = file
                elif file is not None:
                    file.close()

    def _owes(self, number: int) -> bool:
        """Whether a file must be unchanged, or has to be written or cut back."""
        bound = self._bound and number not in self._done
        return bound or bool(self._pieces[number]) or "mark" in self._files[number]

    # The feeds

    def name_of(self, own: str, path: str | None) -> str:
        """Return the name in the store of a feed that has this name of its ``own``.

        Another run may have written its URI differently; then its file is at ``path``.
        """
        if own in self._feeds or path is None:
            return own
        for name, feed in self._feeds.items():
            record = None if feed["file"] is None else self._files[feed["file"]]
            if record is not None and _is_same(record["place"], path):
                return name
        return own

    def take(self, name: str, options: dict[str, Any]) -> OldKnown:
        """Return the state of a feed of this run; call it after :meth:`finish`.

        Raises :class:`~bloomdupe.errors.FeedError`.
        """
        record = self._pop(name, spooled=False)
        if record is None:
            return OldKnown(name)
        anew = options.get("overwrite") or options["batch_item_count"]
        if not self.resumed and anew:
            return OldKnown(name)
        if changed_options(record["options"], options_of(options)):
            return OldKnown(name, ours=self.resumed)
        number = record["file"]
        file = None if number is None else self._file(number)
        if not self.resumed and file is None:
            return OldKnown(name)
        return OldKnown(name, record, file, ours=number is not None)

    def take_spooled(self, name: str, *, replaces: bool) -> OldKnown:
        """Return the state of a feed of this run that has its file in the spool.

        ``replaces`` says that a delivery replaces the delivery before. Otherwise a
        complete file never gets more items. Raises
        :class:`~bloomdupe.errors.FeedError`.
        """
        record = self._pop(name, spooled=True)
        if record is None or not self.resumed:
            return OldKnown(name)
        number = record["file"]
        file = None if number is None else self._file(number)
        done = self.finished or _is_done(record)
        if done and (file is None or not replaces):
            return OldKnown(name, {**record, "items": 0, "spool": None, "delivered": 0})
        return OldKnown(name, record, file)

    def _pop(self, name: str, *, spooled: bool) -> dict[str, Any] | None:
        record = self._feeds.pop(name, None)
        if record is None or ("spool" in record) == spooled:
            return record
        if not self._bound or _is_done(record):
            return None
        raise FeedChangedError(
            f"FEEDS: {record['uri']} was begun with another exporter or storage, see"
            " FEED_EXPORTERS and FEED_STORAGES: set it back, name another file, or"
            f" {self._anew}"
        )

    def spooled(self, name: str) -> str | None:
        """Return the name of a feed's present file in the spool."""
        number = self._feeds.get(name, {}).get("file")
        return None if number is None else Path(self._files[number]["path"]).name

    @property
    def names_in_spool(self) -> set[str]:
        """Names of all files in the spool that are in the store."""
        return {Path(f["path"]).name for f in self._files if "spooled" in f}

    def _file(self, number: int) -> OldFeedFile | None:
        if number not in self._open:  # of a crawl that had finished
            record = self._placed(number)
            if change_of(record, b""):
                return None
            self._open[number] = _finished(record, b"", b"")
        return self._open[number]

    def lost(self) -> list[OldMissingFeed]:
        """Return the feeds that this run does not have."""
        if not self.resumed:
            return []
        lost = []
        for name, record in self._feeds.items():
            number = record["file"]
            file = None if number is None else self._files[number]
            held = b""
            if number in self._open:
                taken = self._open[number]
                file = None
                if taken is not None:
                    file = {**self._files[number], **taken.content.record}
                    held = taken.content.held
                    taken.close()
            kept = {**record, "done": True} if self.finished else record
            lost.append(OldMissingFeed(name, kept, file, held))
        return lost

    def again(self, lost: list[OldMissingFeed]) -> OldStoredFeeds:
        """Return these feeds as the store has them when they were :meth:`lost`."""
        record: dict[str, Any] = {"feeds_finished": self.finished}
        feeds: dict[str, Any] = record.setdefault("feeds", {})
        files: list[dict[str, Any]] = record.setdefault("files", [])
        blobs: dict[str, bytes] = {}
        for feed in lost:
            feed.keep(feeds, files, blobs)
        files[:] = [stored(file, self.spool) for file in files]
        return OldStoredFeeds(
            record,
            blobs,
            self._store,
            self._here,
            resumed=self.resumed,
            anew=self._anew,
        )


def _finished(record: dict[str, Any], piece: bytes, held: bytes) -> OldFeedFile | None:
    """Open and finish a file of the last run; None if no item of the crawl is in it."""
    mark = record.get("mark")
    untouched = (mark or not piece) and is_old(record)
    if untouched:  # it was to be replaced, but has not been
        if not held:
            return None
        content = Content.of(record, b"")
    elif mark:
        content = Content(record["path"], Path(record["place"]))
    else:
        content = Content.of(record, piece)
    file = OldFeedFile(content, private="spooled" in record)
    if mark and not untouched:
        file.cut_back(mark[0])
    file.finish()
    file.hold(held)
    if not (file.content.base or held):
        file.close()
        return None
    return file


def _is_done(feed: dict[str, Any]) -> bool:
    return bool(feed.get("done"))


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def change_of(record: dict[str, Any], piece: bytes) -> str | None:
    """Describe how a file differs from the states that a run may have left.

    A record with ``mark`` belongs to a file that is to be cut back to that mark, and
    may have been cut already. Raises :class:`FeedError` if the place cannot be read.
    """
    try:
        return _change_of(record, piece)
    except OSError as error:
        path = record["path"]
        raise FeedError(f"cannot continue the feed {path}: {error}") from error


def _change_of(record: dict[str, Any], piece: bytes) -> str | None:
    place = Path(record["place"])
    mark = record.get("mark")
    if mark is not None and _is_cut_back(place, *mark):
        return None
    base, end = record["base"], bytes.fromhex(record.get("end", ""))
    try:
        found_there = place.stat()
    except FileNotFoundError:
        return "was deleted" if base or (end and not piece) else None
    if not stat.S_ISREG(found_there.st_mode):
        return "was replaced by something that is not a file"
    size = found_there.st_size
    if is_old(record):
        return None
    if size < base:
        return f"was cut to {size:,} bytes"
    if size > base + max(len(piece), len(end)):
        return f"has grown to {size:,} bytes"
    if digest(tail_of(place, base)) != record["tail"]:
        return "was replaced or edited"
    found = read_bytes(place, base, size)
    if not piece:
        return None if found == end else "was replaced or edited"
    return None if _is_begun(found, end, piece) else "was appended to"


def refuse(record: dict[str, Any], piece: bytes, change: str, anew: str) -> NoReturn:
    """Raise :class:`FeedChangedError` for a file that has changed since a run."""
    left = record["base"] + (len(piece) or len(record.get("end", "")) // 2)
    raise FeedChangedError(
        f"the feed {record['path']} {change} since the last run, which left"
        f" {left:,} bytes in it. Put it back as it was, or {anew}"
    )


def is_old(record: dict[str, Any]) -> bool:
    """Whether a file still has the content that was to be replaced."""
    old = record.get("old")
    return old is not None and ends_at(Path(record["place"]), *old)


def _is_cut_back(place: Path, length: int, tail: str) -> bool:
    if not place.exists():
        return not length
    return ends_at(place, length, tail)


def _is_begun(found: bytes, end: bytes, piece: bytes) -> bool:
    """Whether a piece may have been partly written over the closing bytes of the file.

    A power cut may leave any of its sectors unchanged, or zeros beyond the old end.
    """
    if piece.startswith((found, found.rstrip(b"\0"))):
        return True
    before = end.ljust(len(found), b"\0")
    after = piece.ljust(len(found), b"\0")
    return all(
        now in (old, new) for now, old, new in zip(found, before, after, strict=False)
    )
