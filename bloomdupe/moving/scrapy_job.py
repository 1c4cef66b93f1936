"""ScrapyJob: reads the JOBDIR of Scrapy's own scheduler and duplicate filter.

::

    requests.seen      fingerprints: in hexadecimal, one on a line; from Scrapy 2.19 on
                       the number of its bytes u16 (big-endian), and the bytes, after
                       any lines of an earlier version
    requests.queue/
      active.json      written last when the scheduler is closed: a list of priorities,
                       or such a list for each slot (DownloaderAwarePriorityQueue)
      0, -1, 0s ...    a disk queue for each priority, which is the request's own
                       negated; with an s, of start requests. With slots, in a folder
                       for each slot: its name, with some characters replaced, a dash,
                       and its MD5
    spider.state       a pickle

The queues are copied, and Scrapy's own classes read the copy.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from operator import index
from typing import TYPE_CHECKING, Any, BinaryIO

from scrapy.utils.misc import build_from_crawler, load_object

from bloomdupe.errors import StoreError
from bloomdupe.foreign import json_of
from bloomdupe.store.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy import Request
    from scrapy.crawler import Crawler

    from bloomdupe.jobs.held import Problems

SEEN = "requests.seen"
QUEUE = "requests.queue"
ACTIVE = "active.json"
STATE = "spider.state"
LONGEST = 16 << 20
"""Characters of ``active.json`` that are read."""
MOST_NAMED = 2_000_000
"""Values in ``active.json``: the names of slots and their priorities."""
SIZE_BYTES = 2
_hexadecimal = re.compile(rb"(?:[0-9a-f]{2})+").fullmatch


class ScrapyJob:
    """A job that Scrapy has stopped in good order."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shown = str(directory)
        self._queue = directory / QUEUE
        if not ((directory / SEEN).exists() or (self._queue / ACTIVE).exists()):
            raise StoreError(
                f"{directory} is no JOBDIR of Scrapy's own scheduler: `bloomdupe add"
                " --from` reads a list of URLs, and `bloomdupe backup` copies a job of"
                " bloomdupe"
            )

    # Pending requests

    def has_pending(self) -> bool:
        """Whether requests are pending; refuse a job that was killed."""
        active = self._queue / ACTIVE
        places = list(self._queue.rglob("*"))
        if not active.exists():
            if places:
                raise self._unclean(f"there is no {active}")
            return False
        written = active.stat().st_mtime_ns
        for place in (self._queue, *places):
            if place.stat().st_mtime_ns > written:
                raise self._unclean(
                    f"{place} was changed later than {ACTIVE}",
                    f"; if it was, and the files have only been copied since, `touch"
                    f" {active}`",
                )
        return any(self._active().values())

    def _unclean(self, what: str, more: str = "") -> StoreError:
        return StoreError(
            f"{self.directory}: {what}, so Scrapy was not stopped in good order, and"
            " requests of the job are missing. Let Scrapy go on with it, and stop it by"
            f" Ctrl-C once{more}"
        )

    def _active(self) -> dict[str | None, list[int]]:
        """Return the priorities of each slot; None is all slots together."""
        active = self._queue / ACTIVE
        try:
            with open(open_regular(active), encoding="utf-8") as file:
                state = json_of(file.read(LONGEST), MOST_NAMED)
            slots = state if isinstance(state, dict) else {None: state}
            return {slot: sorted(map(index, found)) for slot, found in slots.items()}
        except (ValueError, TypeError) as error:
            raise StoreError(f"{active} is damaged: {error}") from error

    def pending(
        self, crawler: Crawler, folder: Path, problems: Problems
    ) -> tuple[int, Iterator[Request]]:
        """Count and load the requests, in the order in which Scrapy would take them.

        Loading can run any code that was put into them. ``crawler`` has the spider with
        their callbacks. They are read from a copy in the ``folder``. A request that
        cannot be read is a problem.
        """
        copy = folder / QUEUE
        try:
            shutil.copytree(self._queue, copy)
            queues = [*self._opened(copy, crawler)]
        except StoreError:
            raise
        except Exception as error:  # of any class of a queue
            raise self._unread(error) from error
        total = sum(len(queue) for _, queue in queues)
        return total, self._popped(copy, queues, problems)

    def _opened(self, copy: Path, crawler: Crawler) -> Iterator[tuple[str, Any]]:
        """Open the queues in the order in which Scrapy would empty those of a slot."""
        names = ("SCHEDULER_DISK_QUEUE", "SCHEDULER_START_DISK_QUEUE")
        classes = [crawler.settings[name] for name in names]
        # Of the name of a slot's folder, only the end is the same in all versions.
        folders = {place.name.rpartition("-")[2]: place for place in copy.iterdir()}
        for slot, priorities in self._active().items():
            folder = copy
            if slot is not None:
                digest = hashlib.md5(slot.encode()).hexdigest()  # noqa: S324 - a name
                folder = folders.get(digest, copy / slot)
            for priority in priorities:
                found = [folder / f"{priority}{end}" for end in ("", "s")]
                if not any(place.exists() for place in found):
                    raise self._unclean(f"{found[0].relative_to(copy)} is missing")
                for class_, place in zip(classes, found, strict=True):
                    if class_ and place.exists():
                        queue = build_from_crawler(
                            load_object(class_), crawler, str(place)
                        )
                        yield str(place.relative_to(copy.parent)), queue

    def _popped(
        self, copy: Path, queues: list[tuple[str, Any]], problems: Problems
    ) -> Iterator[Request]:
        for name, queue in queues:
            number = 0
            while left := len(queue):
                number += 1
                try:
                    request = queue.pop()
                except Exception as error:
                    if len(queue) >= left:
                        raise self._unread(error) from error
                    where = f"{self.directory / name}, request {number:,}"
                    problems.add(where, str(error) or type(error).__name__)
                    continue
                if len(queue) >= left:
                    raise self._unclean(f"{name} holds less than it counts")
                yield request
            queue.close()
        # Scrapy's queues remove their files when they are empty.
        for place in copy.rglob("*"):
            if place.is_file() and place.name != ACTIVE:
                raise self._unread(f"nothing has read {place.relative_to(copy.parent)}")

    def _unread(self, error: object) -> StoreError:
        return StoreError(
            f"{self._queue} cannot be read: {error}. SCHEDULER_DISK_QUEUE and"
            " SCHEDULER_START_DISK_QUEUE must be those with which the crawl was run"
        )

    # Seen requests

    def fingerprints(self, problems: Problems) -> Iterator[bytes]:
        """Yield the fingerprints of requests that were seen, each once or more."""
        place = self.directory / SEEN
        if place.exists():
            with os.fdopen(open_regular(place), "rb") as file:
                yield from _fingerprints(file, place, problems)

    # The end

    def end(self, jobdir: Path, *, trusted: bool) -> list[str]:
        """Bring ``spider.state`` to the job, if it is ``trusted``; return remarks."""
        state = self.directory / STATE
        if not os.path.lexists(state):
            return []
        here = jobdir.samefile(self.directory)
        if trusted:
            if not here:
                shutil.copyfile(state, jobdir / STATE)
            return []
        aside = "left out"
        if here:  # where a crawl of the job would load it
            moved = state.replace(state.with_name(f"{STATE}.not-imported"))
            aside = f"moved to {moved}: put it back if you trust it"
        return [f"{state} is a pickle, and was {aside}"]


def _fingerprints(file: BinaryIO, place: Path, problems: Problems) -> Iterator[bytes]:
    while True:
        at = file.tell()
        line = file.readline(1 << 16)
        text = line.rstrip(b"\r\n")
        if not (line.endswith(b"\n") and _hexadecimal(text)):
            break
        yield bytes.fromhex(text.decode())
    file.seek(at)
    while head := file.read(SIZE_BYTES):
        size = int.from_bytes(head, "big")
        fingerprint = file.read(size)
        if len(head) < SIZE_BYTES or len(fingerprint) < size or not size:
            problems.add(
                str(place),
                f"it is torn at byte {at:,}: pages with fingerprints after that may be"
                " fetched again",
            )
            return
        yield fingerprint
        at += SIZE_BYTES + size
