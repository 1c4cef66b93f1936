"""ScrapyJob: reads the JOBDIR of Scrapy's own scheduler and duplicate filter.

The format is that of ``scrapy/core/scheduler.py``, ``pqueues.py``, ``squeues.py`` and
``dupefilters.py`` in Scrapy 2.16 to 2.19::

    requests.seen      fingerprints: in hexadecimal, one on a line; from 2.19 on the
                       number of its bytes u16 (big-endian), and the bytes, after any
                       lines of an earlier version
    requests.queue/
      active.json      written when the scheduler is closed: a list of priorities, or
                       such a list for each slot (DownloaderAwarePriorityQueue)
      0, -1, 0s ...    a disk queue for each priority, which is the request's own
                       negated; with an s, of start requests. With slots, in a folder
                       for each slot: its name, with characters other than letters,
                       digits and -._ replaced, a dash, and its MD5
    spider.state       a pickle

A request is the dict of ``Request.to_dict()``, written by pickle or :mod:`marshal`.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
from operator import index
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from scrapy import Request

from bloomdupe.crawl.requests.objects import loaded_class
from bloomdupe.crawl.requests.pickles import unpickle
from bloomdupe.errors import StoreError
from bloomdupe.foreign import LARGEST
from bloomdupe.jobs.receiver import Source
from bloomdupe.jobs.request_line import wanted
from bloomdupe.moving.disk_queues import items_of, json_of_file, size_of
from bloomdupe.moving.imports import mark_all
from bloomdupe.moving.marshalled import unmarshal
from bloomdupe.store.descriptor import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bloomdupe.jobs.job_contract import Watched
    from bloomdupe.jobs.lines import Problems
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.receiver import Imported, Receiver
    from bloomdupe.jobs.request_line import Wanted


SEEN = "requests.seen"
QUEUE = "requests.queue"
ACTIVE = "active.json"
PICKLED = b"\x80"
"""First byte of a pickle, from protocol 2 on; no dict of marshal begins with it."""
SIZE_BYTES = 2
_hexadecimal = re.compile(rb"[0-9a-f]+").fullmatch


class _Queue(NamedTuple):
    place: Path
    start: bool


class ScrapyJob(Source):
    """A job that Scrapy has stopped in good order, to be read only.

    ``trust_pickles`` loads requests as Scrapy does, which can run any code in them;
    without it only requests of plain types are read. Raises :class:`StoreError` if the
    job was not stopped in good order. ``watched`` shows the progress by kind and total.
    """

    def __init__(
        self, directory: Path, watched: Watched, *, trust_pickles: bool = False
    ) -> None:
        self.directory = directory
        self._watched = watched
        self._trust = trust_pickles
        self._load = pickle.loads if trust_pickles else unpickle
        self._queues = list(self._find_queues())
        self._total = sum(size_of(queue.place) for queue in self._queues)
        self.identity = self._identity()

    @classmethod
    def is_there(cls, directory: Path) -> bool:
        """Whether Scrapy has kept a job in a directory."""
        return (directory / SEEN).exists() or (directory / QUEUE / ACTIVE).exists()

    def _identity(self) -> str:
        """Return a digest that identifies this job in its present state."""
        digest = hashlib.blake2b(digest_size=16)
        for place in (
            self.directory / SEEN,
            self.directory / QUEUE / ACTIVE,
            *(queue.place for queue in self._queues),
        ):
            if place.exists():
                found = place.stat()
                about = (place.name, found.st_size, found.st_mtime_ns)
                digest.update(repr(about).encode())
        return digest.hexdigest()

    # Pending requests

    def _find_queues(self) -> Iterator[_Queue]:
        folder = self.directory / QUEUE
        active = folder / ACTIVE
        if not active.exists():
            if folder.exists() and any(folder.iterdir()):
                raise self._unclean(f"there is no {active}")
            return
        try:
            state = json_of_file(active)
            slots = state if isinstance(state, dict) else {None: state}
            folders = {
                folder if slot is None else folder / _folder_of(slot): sorted(
                    map(index, priorities)
                )
                for slot, priorities in slots.items()
            }
        except (ValueError, TypeError) as error:
            raise StoreError(f"{active} is damaged: {error}") from error
        written = active.stat().st_mtime_ns
        known: set[Path] = {active}
        for place, priorities in folders.items():
            for priority in priorities:
                queues = [
                    queue
                    for start in (False, True)
                    if (queue := _Queue(place / f"{priority}{'s' * start}", start))
                    and queue.place.exists()
                ]
                if not queues:
                    raise self._unclean(f"{place / str(priority)} is missing")
                known.update(queue.place for queue in queues)
                yield from queues
        self._expect_no_others(known, written)

    def _expect_no_others(self, known: set[Path], written: int) -> None:
        """Refuse files that the last clean stop does not know, or that are newer."""
        for place in (self.directory / QUEUE).rglob("*"):
            if place.is_dir():
                continue
            if place not in known and place.parent not in known:
                if size_of(place.parent if _in_fifo(place) else place):
                    raise self._unclean(f"{place} is not in {ACTIVE}")
            elif place.stat().st_mtime_ns > written:
                raise self._unclean(
                    f"{place} was changed later than {ACTIVE}",
                    f"; if it was, and the files have only been copied since, `touch"
                    f" {self.directory / QUEUE / ACTIVE}`",
                )

    def _unclean(self, what: str, more: str = "") -> StoreError:
        return StoreError(
            f"{self.directory}: {what}, so Scrapy was not stopped in good order, and"
            " requests of the job are missing. Let Scrapy go on with it, and stop it by"
            f" Ctrl-C once{more}"
        )

    def requests(self, project: Project, problems: Problems) -> Iterator[Wanted]:  # noqa: ARG002
        """Yield the requests, in each queue the oldest first."""
        found: Iterator[Wanted] = self._watched(
            self._pending(problems), self._total, "requests"
        )
        return found

    def _pending(self, problems: Problems) -> Iterator[Wanted]:
        for queue in self._queues:
            for number, item in enumerate(items_of(queue.place), 1):
                try:
                    found = self._request(item, start=queue.start)
                except Exception as error:  # noqa: BLE001 - any damage, told as a problem
                    where = f"{queue.place}, request {number:,}"
                    problems.add(where, str(error) or type(error).__name__)
                else:
                    yield found

    def _request(self, item: bytes | None, *, start: bool) -> Wanted:
        if item is None:
            raise ValueError(f"it is longer than {LARGEST:,} bytes")
        load = self._load if item.startswith(PICKLED) else unmarshal
        return from_dict(load(item), start=start)

    # Seen requests

    def take_marks(self, job: Receiver, imported: Imported) -> None:
        """Mark the requests that Scrapy has seen."""
        found = self._fingerprints(imported.problems)
        mark_all(job, imported, self._watched(found, None, "fingerprints"))
        self._take_state(imported)

    def _take_state(self, imported: Imported) -> None:
        """Leave ``spider.state`` to the crawl; without trust, put the pickle aside."""
        state = self.directory / "spider.state"
        if not os.path.lexists(state):
            return
        if self._trust:
            remark = (
                f"{state} is read by the crawl itself, if its JOBDIR is that folder"
            )
        else:
            aside = state.with_name("spider.state.not-imported")
            state.replace(aside)
            remark = (
                f"spider.state is a pickle, and was put aside as {aside}: put it back"
                " if you trust it"
            )
        imported.remarks.append(remark)

    def _fingerprints(self, problems: Problems) -> Iterator[bytes]:
        """Yield the fingerprints of requests that were seen, each once or more."""
        place = self.directory / SEEN
        if place.exists():
            with os.fdopen(open_regular(place), "rb") as file:
                yield from _fingerprints(file, place, problems)


def _folder_of(slot: str) -> str:
    """Name the folder of a slot, as ``_path_safe()`` in ``pqueues.py`` does."""
    safe = "".join(c if c.isalnum() or c in "-._" else "_" for c in slot)
    return f"{safe}-{hashlib.md5(slot.encode()).hexdigest()}"  # noqa: S324 - a name


def _in_fifo(place: Path) -> bool:
    return place.name == "info.json" or re.fullmatch(r"q\d{5,}", place.name) is not None


def _fingerprints(file: BinaryIO, place: Path, problems: Problems) -> Iterator[bytes]:
    while True:
        at = file.tell()
        line = file.readline(1 << 16)
        text = line.rstrip(b"\r\n")
        if not (line.endswith(b"\n") and _hexadecimal(text) and len(text) % 2 == 0):
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


def from_dict(given: Any, *, start: bool = False) -> Wanted:  # noqa: ANN401
    """Return the request that a dict describes.

    Its class must be loaded already: a dict cannot cause an import. Raises any
    exception for an invalid dict.
    """
    if not isinstance(given, dict):
        raise TypeError("it is no dict of a request")
    class_: type[Request] = Request
    if "_class" in given:
        class_ = loaded_class(given["_class"])
        if not issubclass(class_, Request):
            raise TypeError(f"{given['_class']} is no kind of request")
    names = [given.get(name) for name in ("callback", "errback")]
    for name in names:
        if not isinstance(name, str | None):
            raise TypeError(f"it has a callback that is no name: {name!r}")
    callback, errback = names
    arguments = {
        name: given[name]
        for name in class_.attributes
        if name in given and name not in ("callback", "errback")
    }
    request = class_(**arguments)
    return wanted(request, callback or "parse", errback, start=start)
