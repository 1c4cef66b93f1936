"""RedisJob: reads a crawl of scrapy-redis on Redis.

``SCHEDULER_QUEUE_KEY``, ``NAME:requests`` by default, names a sorted set of requests,
under their negated priority; or a list, whose end is next with ``FifoQueue``, and else
its beginning. ``SCHEDULER_DUPEFILTER_KEY``, ``NAME:dupefilter`` by default, names a set
of fingerprints in hexadecimal.

A request is the dict of ``Request.to_dict()``, pickled unless ``SCHEDULER_SERIALIZER``
names another module. A request that a worker has taken out is in no key.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from scrapy.utils.misc import load_object
from scrapy.utils.request import request_from_dict

from bloomdupe.errors import StoreError, StoreMismatchError
from bloomdupe.jobs.held import Problems
from bloomdupe.jobs.project import FINGERPRINTER, loading
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy import Request
    from scrapy.crawler import Crawler

    from bloomdupe.jobs.project import Project

AT_ONCE = 500
"""Members of a key in one answer, and requests to look up in the fingerprints."""
SIZES = {"list": "LLEN", "zset": "ZCARD", "set": "SCARD"}
"""Commands that count the members of a key, by its type."""


class RedisJob:
    """A crawl of scrapy-redis with stopped workers."""

    def __init__(self, url: str, project: Project) -> None:
        settings = project.settings
        queue = settings.get("SCHEDULER_QUEUE_KEY") or "%(spider)s:requests"
        seen = settings.get("SCHEDULER_DUPEFILTER_KEY") or "%(spider)s:dupefilter"
        self._project = project
        self._queue = str(queue).replace("%(spider)s", project.spider)
        self._seen = str(seen).replace("%(spider)s", project.spider)
        self._from_end = "fifo" in str(settings.get("SCHEDULER_QUEUE_CLASS")).lower()
        self._serializer = settings.get("SCHEDULER_SERIALIZER") or "pickle"
        self._client = Client(Address.of_server(url), patience=0.0)
        self.shown = self._client.address.shown
        self._sizes = self._counted()
        self._fit = False
        if not any(self._sizes):
            raise StoreError(
                f"{self.shown}: no pending requests in {self._queue!r}, and no"
                f" fingerprints in {self._seen!r}. SCHEDULER_QUEUE_KEY and"
                " SCHEDULER_DUPEFILTER_KEY name these keys; and without"
                " SCHEDULER_PERSIST = True, scrapy-redis deletes them when it stops"
            )

    def _counted(self) -> tuple[int, int]:
        return self._size(self._queue), self._size(self._seen)

    def _size(self, key: str) -> int:
        """Count the members of a key; 0 if there is none of such a type."""
        kind = self._client.ask("TYPE", key).decode()
        return int(self._client.ask(SIZES[kind], key)) if kind in SIZES else 0

    def has_pending(self) -> bool:
        """Whether requests are pending."""
        return self._sizes[0] > 0

    def pending(
        self, crawler: Crawler, _: Path, problems: Problems
    ) -> tuple[int, Iterator[Request]]:
        """Read the requests, if their fingerprints are those of this project.

        A pending request was marked before it was stored, so its fingerprint must be
        there.
        """
        with loading(self._project.settings, "SCHEDULER_SERIALIZER"):
            loads = load_object(f"{self._serializer}.loads")

        def read(problems: Problems) -> Iterator[Request]:
            for number, member in enumerate(self._ordered(), 1):
                try:
                    yield request_from_dict(loads(member), spider=crawler.spider)
                except Exception as error:  # noqa: BLE001 - any damage, told as a problem
                    where = f"{self._queue}, request {number:,}"
                    problems.add(where, str(error) or type(error).__name__)

        some = (one for one in read(Problems()) if not one.dont_filter)
        keys = [self._project.key_of(one)[0].hex() for one in islice(some, AT_ONCE)]
        self._fit = any(self._client.ask("SISMEMBER", self._seen, key) for key in keys)
        if keys and self._sizes[1] and not self._fit:
            raise StoreMismatchError(
                f"{self.shown}: the fingerprints in {self._seen!r} are not those of"
                f" {self._project.fingerprinter}; set {FINGERPRINTER} to the class that"
                " has made them (see bloomdupe/docs/from-scrapy-redis.md)",
                FINGERPRINTER,
            )
        return self._sizes[0], read(problems)

    def _ordered(self) -> Iterator[bytes]:
        """Yield a sorted set by rising score, or a list from where it is taken."""
        is_list = self._client.ask("TYPE", self._queue) == b"list"
        command, back = "LRANGE" if is_list else "ZRANGE", is_list and self._from_end
        for start in range(0, self._sizes[0], AT_ONCE):
            first, last = start, start + AT_ONCE - 1
            if back:
                first, last = -last - 1, -first - 1
            found = self._client.ask(command, self._queue, first, last)
            yield from reversed(found) if back else found

    def fingerprints(self, problems: Problems) -> Iterator[bytes]:
        """Yield the fingerprints of requests that were seen, each once or more."""
        place, more = 0, self._sizes[1] > 0
        while more:
            part = ("SSCAN", self._seen, place, "COUNT", AT_ONCE)
            place, members = self._client.ask(*part)
            more = place != 0
            for member in members:
                try:
                    yield bytes.fromhex(member.decode("ascii"))
                except ValueError:
                    problems.add(self._seen, f"{member[:80]!r} is no fingerprint")

    def end(self, _: Path, *, trusted: bool) -> list[str]:
        """Refuse a crawl that goes on; return remarks."""
        if self._counted() != self._sizes:
            raise StoreError(
                f"{self.shown}: the crawl has changed meanwhile: stop all its workers"
            )
        if not self._sizes[1]:
            return [
                f"There is no set {self._seen!r}, so nothing says which pages are done:"
                " they are fetched again if a link leads to them"
            ]
        if self._fit:
            return []
        return [
            "Nothing shows whether the fingerprints are those of"
            f" {self._project.fingerprinter}: `bloomdupe check` a page that is done"
        ]
