"""RedisJob: reads a crawl of scrapy-redis on Redis, and changes nothing.

========= ========================================================================
type      contents
========= ========================================================================
zset      ``PriorityQueue``: requests under their negated priority; the first goes
          first, and among equal scores the request with the smallest bytes
list      ``FifoQueue``: requests, the next one at the end. ``LifoQueue``: at the
          beginning
set       fingerprints, in hexadecimal
string    the bitmap of scrapy-redis-bloomfilter
list,     start URLs, or JSON objects with a ``url``. The next one is at the beginning
set, zset of a list, has the highest score of a sorted set, or is any of a set
========= ========================================================================

A request is the dict of ``Request.to_dict()``, pickled unless a setting names another
serializer. A request that a worker of scrapy-redis has taken out is in no key.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from itertools import islice
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from scrapy import FormRequest, Request
from scrapy.utils.python import global_object_name

from bloomdupe.errors import SettingError, StoreError, StoreMismatchError
from bloomdupe.foreign import json_of
from bloomdupe.jobs.receiver import Source
from bloomdupe.jobs.request_line import checked, wanted
from bloomdupe.links.scrapy_redis import (
    ScrapyRedis07Fingerprinter,
    ScrapyRedisFingerprinter,
)
from bloomdupe.moving.imports import mark_all
from bloomdupe.moving.redis_names import RedisNames, loader_of
from bloomdupe.moving.scrapy_job import from_dict
from bloomdupe.redis.address import Address
from bloomdupe.redis.keys import Keys, Member

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bloomdupe.jobs.job_contract import Watched
    from bloomdupe.jobs.lines import Problems
    from bloomdupe.jobs.project import Project
    from bloomdupe.jobs.receiver import Imported, Receiver
    from bloomdupe.jobs.request_line import Wanted

LOOKED_AT = 10_000
"""Requests to read in search of requests that show the fingerprinter."""
ASKED = 100
"""Requests to look up in the fingerprints, at most."""

WITHOUT_MARKS = (
    "--without-marks imports only the pending requests, and then pages that are done"
    " there are fetched again when a link leads to them"
)


class RedisJob(Source):
    """A crawl of scrapy-redis with stopped workers.

    ``known`` is a URL that the crawl reached by a link and fetched; None: the pending
    requests show which fingerprinter was used. Without ``marks`` the fingerprints are
    left out. With ``trust_pickles`` requests are loaded as scrapy-redis does, which can
    run any code in them. ``watched`` shows the progress by kind and total.

    Raises :class:`~bloomdupe.errors.StoreError` if there is no crawl, or it cannot be
    imported, and the errors of :class:`~bloomdupe.redis.keys.Keys`.
    """

    def __init__(
        self,
        url: str,
        project: Project,
        watched: Watched,
        *,
        marks: bool = True,
        known: str | None = None,
        trust_pickles: bool = False,
    ) -> None:
        names = RedisNames.of(project)
        self._load = loader_of(project, trust_pickles=trust_pickles)
        self._project = project
        self._watched = watched
        self._from_end = names.kind.from_end
        self._keys = Keys(Address.of_server(url))
        with ExitStack() as undo:
            undo.callback(self.close)
            self._shown = self._keys.address.shown
            self._queue = self._keys.key(names.queue)
            self._start = self._keys.key(names.start)
            found = [self._keys.key(name) for name in names.seen]
            self._seen = next((key for key in found if key.is_there), found[0])
            self._marks = marks and self._seen.is_there
            self._strange = 0
            """Pending requests that were looked up and have no mark."""
            self._check(names)
            if marks:
                self._check_seen(known)
            self.identity = self._identity()
            undo.pop_all()

    def close(self) -> None:
        """Close the connection."""
        self._keys.close()

    @property
    def _total(self) -> int:
        """The number of pending requests, start URLs included."""
        return self._queue.size + self._start.size

    @property
    def _knows_start_requests(self) -> bool:
        """Whether the spider makes requests of start URLs as scrapy-redis does."""
        method = self._project.spiders_own("make_request_from_data")
        return method is None or method.__module__.startswith("scrapy_redis.")

    def _check(self, names: RedisNames) -> None:
        """Refuse keys that are not there, or are of another type."""
        if not any(key.is_there for key in (self._queue, self._start, self._seen)):
            raise StoreError(
                f"{self._shown}: nothing of scrapy-redis is there for spider"
                f" {self._project.spider!r}: no key {self._queue.name!r},"
                f" {self._seen.name!r} or {self._start.name!r}. Their names follow"
                " SCHEDULER_QUEUE_KEY, SCHEDULER_DUPEFILTER_KEY and"
                " REDIS_START_URLS_KEY; and without SCHEDULER_PERSIST = True,"
                " scrapy-redis deletes them when it stops"
            )
        if self._queue.is_there and self._queue.kind != names.kind.type:
            raise StoreMismatchError(
                f"{self._shown}: the key {self._queue.name!r} is a {self._queue.kind},"
                f" but SCHEDULER_QUEUE_CLASS makes a {names.kind.type}"
                " (scrapy_redis.queue.PriorityQueue unless it is set): set it to the"
                " class with which the crawl was run",
                "SCHEDULER_QUEUE_CLASS",
            )
        if self._start.kind not in ("list", "set", "zset", "none"):
            raise StoreMismatchError(
                f"{self._shown}: the key {self._start.name!r} is a {self._start.kind},"
                " and no list or set of start URLs",
                "REDIS_START_URLS_KEY",
            )

    def _identity(self) -> str:
        """A digest that identifies this crawl in its present state."""
        digest = hashlib.blake2b(digest_size=16)
        for key in (self._queue, self._start):
            digest.update(repr(key).encode())
            if key.kind in ("list", "zset"):
                for from_end in (False, True):
                    ends = self._keys.ordered(key, from_end=from_end)
                    digest.update(repr(next(ends, None)).encode())
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        """Refuse a crawl that has changed since it was opened."""
        for key in (self._queue, self._start, *([self._seen] if self._marks else [])):
            if self._keys.key(key.name) != key:
                raise self._keys.changed(key)
        if self._identity() != self.identity:
            raise self._keys.changed(self._queue)

    # Pending requests

    def requests(self, project: Project, problems: Problems) -> Iterator[Wanted]:  # noqa: ARG002
        """Yield the requests in the order in which scrapy-redis would take them.

        Their ages make the job take them in this order, too. Start URLs come last.
        """
        found: Iterator[Wanted] = self._watched(
            self._pending(problems), self._total, "requests"
        )
        return found

    def _pending(self, problems: Problems) -> Iterator[Wanted]:
        for place, member in enumerate(self._waiting()):
            try:
                found = self._request(member)
            except Exception as error:  # noqa: BLE001 - any damage, told as a problem
                where = f"{self._queue.name}, request {place + 1:,}"
                problems.add(where, str(error) or type(error).__name__)
            else:
                yield self._aged(found, place)
        yield from self._start_requests(problems)

    def _waiting(self) -> Iterator[Member]:
        return self._keys.ordered(self._queue, from_end=self._from_end)

    def _request(self, member: Member) -> Wanted:
        given = self._load(member.value)
        if self._queue.kind == "zset" and isinstance(given, dict):
            # The score counts there, not the priority of the request.
            given["priority"] = round(-member.score)
        found = from_dict(given)
        return found._replace(start=bool(found.request.meta.get("is_start_request")))

    def _aged(self, one: Wanted, place: int) -> Wanted:
        order = self._project.order
        fifo = order.start_fifo if one.start and order.starts_apart else order.fifo
        return one._replace(age=place if fifo else self._total - place)

    def _start_requests(self, problems: Problems) -> Iterator[Wanted]:
        if not self._start.size:
            return
        if not self._knows_start_requests:
            problems.add(
                self._start.name,
                f"spider {self._project.spider!r} makes its start requests by a method"
                f" of its own (make_request_from_data), so {self._start.size:,} start"
                " URLs are left out: let scrapy-redis take them into its queue first",
            )
            return
        encoding = self._project.spiders_own("redis_encoding")
        encoding = encoding or self._project.settings.get("REDIS_ENCODING") or "utf-8"
        for place, data in enumerate(self._start_data(), self._queue.size):
            try:
                found = _start_request(data.decode(encoding))
            except Exception as error:  # noqa: BLE001 - any damage, told as a problem
                where = f"{self._start.name}, {place - self._queue.size + 1:,}"
                problems.add(where, str(error) or type(error).__name__)
            else:
                yield self._aged(found, place)

    def _start_data(self) -> Iterator[bytes]:
        """Yield the data of the start requests, always in the same order."""
        if self._start.kind == "set":
            # All at once, for Redis returns them in a different order every time.
            yield from sorted(set(self._keys.members(self._start.name)))
            return
        by_score = self._start.kind == "zset"
        for member in self._keys.ordered(self._start, from_end=by_score):
            yield member.value

    # Seen requests

    def take_marks(self, job: Receiver, imported: Imported) -> None:
        """Mark the requests that were seen."""
        if self._marks:
            found = self._fingerprints(imported.problems)
            found = self._watched(found, self._seen.size, "fingerprints")
            mark_all(job, imported, found)
        self.check_unchanged()
        imported.remarks += self._remarks()

    def _fingerprints(self, problems: Problems) -> Iterator[bytes]:
        """Yield the fingerprints of requests that were seen, each once or more."""
        for member in self._keys.members(self._seen.name):
            try:
                yield bytes.fromhex(member.decode("ascii"))
            except ValueError:
                problems.add(self._seen.name, f"{member[:80]!r} is no fingerprint")

    def _remarks(self) -> Iterator[str]:
        if self._queue.is_there or self._seen.is_there:
            yield (
                "Requests that workers of scrapy-redis had in progress when they"
                " stopped are in no key. After a stop in good order (Ctrl-C once) there"
                " are none; the requests of a killed worker are lost"
            )
        if self._strange:
            yield (
                f"{self._strange:,} of the first pending requests are not in"
                f" {self._seen.name!r}, as all should be. Perhaps part of it was"
                " deleted, or its fingerprints are not always those of"
                f" {self._project.fingerprinter}; pages that are done may be fetched"
                " again"
            )
        imported_starts = self._start.size and self._knows_start_requests
        if imported_starts and self._project.spiders_own("setup_redis"):
            yield (
                f"Spider {self._project.spider!r} reads {self._start.name!r} by itself,"
                " too: derive it from another class, or delete that key, or it fetches"
                " these start pages twice"
            )

    def _check_seen(self, known: str | None) -> None:
        """Refuse marks that mean nothing to the job."""
        if self._seen.kind == "string":
            raise StoreMismatchError(
                f"{self._shown}: the key {self._seen.name!r} is a bitmap, such as"
                " scrapy-redis-bloomfilter makes. It cannot list its URLs, and its"
                " positions come from other hashes than those of a filter of bloomdupe,"
                f" so it cannot be imported; {WITHOUT_MARKS}"
            )
        if self._seen.is_there and self._seen.kind != "set":
            raise StoreMismatchError(
                f"{self._shown}: the key {self._seen.name!r} is a {self._seen.kind},"
                f" and no set of fingerprints; {WITHOUT_MARKS}",
                "SCHEDULER_DUPEFILTER_KEY",
            )
        if not self._seen.is_there and self._queue.is_there:
            raise StoreError(
                f"{self._shown}: there is no key {self._seen.name!r}"
                " (SCHEDULER_DUPEFILTER_KEY), so nothing says which pages are done;"
                f" {WITHOUT_MARKS}"
            )
        if self._seen.is_there:
            self._check_fingerprints(known)

    def _check_fingerprints(self, known: str | None) -> None:
        """Refuse fingerprints of a fingerprinter that is not the job's.

        A pending request was marked before it was stored, so its fingerprint must be
        there.
        """
        requests = [] if known is None else [_known(known)]
        some = islice(self._waiting_requests(), LOOKED_AT)
        requests += islice((one for one in some if not one.dont_filter), ASKED)
        self._strange = self._missing(self._project.key_of(one)[0] for one in requests)
        if self._strange < len(requests):
            return
        name = self._project.fingerprinter
        if not requests:
            raise StoreMismatchError(
                f"{self._shown}: no pending request shows whether the"
                f" fingerprints in {self._seen.name!r} are those of {name}. --known URL"
                " does, with the URL of a page that was fetched there, and no start"
                f" page; {WITHOUT_MARKS}",
                "REQUEST_FINGERPRINTER_CLASS",
            )
        for theirs in (ScrapyRedisFingerprinter, ScrapyRedis07Fingerprinter):
            missing = self._missing(theirs().fingerprint(one) for one in requests)
            if missing < len(requests):
                raise StoreMismatchError(
                    f"{self._shown}: the fingerprints in {self._seen.name!r} are"
                    f" scrapy-redis' own, and this job has those of {name}, which are"
                    " other hashes. Set REQUEST_FINGERPRINTER_CLASS ="
                    f" {global_object_name(theirs)!r} in the settings of the project"
                    f" for as long as you keep the job; or {WITHOUT_MARKS}",
                    "REQUEST_FINGERPRINTER_CLASS",
                )
        raise StoreMismatchError(
            f"{self._shown}: the fingerprints in {self._seen.name!r} are neither those"
            f" of {name}, nor of any version of scrapy-redis. If a function of the"
            " project makes them, put it into a class and name that class in"
            f" REQUEST_FINGERPRINTER_CLASS; or {WITHOUT_MARKS}",
            "REQUEST_FINGERPRINTER_CLASS",
        )

    def _waiting_requests(self) -> Iterator[Request]:
        for member in self._waiting():
            try:
                found = self._request(member)
            except Exception:  # noqa: BLE001, S112 - it is reported when it is imported
                continue
            yield found.request

    def _missing(self, fingerprints: Iterable[bytes]) -> int:
        return sum(
            not self._keys.has(self._seen.name, one.hex()) for one in fingerprints
        )


def _known(url: str) -> Request:
    try:
        return checked(url)
    except ValueError as error:
        raise SettingError(f"--known: {error}") from error


def _start_request(text: str) -> Wanted:
    """Return the request that scrapy-redis makes of a start URL, or a JSON object."""
    try:
        given: Any = json_of(text)
    except JSONDecodeError:
        return wanted(
            checked(text.strip(), dont_filter=True), "parse", None, start=True
        )
    if not isinstance(given, dict) or not isinstance(given.get("url"), str):
        raise TypeError("it is a JSON text without 'url'")
    url = given.pop("url")
    checked(url)
    # All other names are fields of a form.
    form = FormRequest(
        url,
        method=given.pop("method", "GET").upper(),
        meta=given.pop("meta", None),
        formdata=given,
    )
    request = checked(
        form.url,
        method=form.method,
        headers=form.headers,
        body=form.body,
        meta=form.meta,
        dont_filter=True,
    )
    return wanted(request, "parse", None, start=True)
