"""A crawl of several workers, as Redis has it: for judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bloomdupe.store.format import DELAYED, QUEUE
from support.output import lines_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.store.redis.crawl_reader import Sample
    from bloomdupe.store.snapshot import Snapshot


class StoredCrawl:
    """Reads what is committed; each call reads it anew."""

    def __init__(self, url: str) -> None:
        from bloomdupe.store.redis.address import Address
        from bloomdupe.store.redis.client import Client
        from bloomdupe.store.redis.crawl_reader import CrawlOnRedis

        self._crawl = CrawlOnRedis(Client(Address.of(url)))

    @property
    def exists(self) -> bool:
        """Whether a worker has begun it."""
        return self._crawl.partitions > 0

    @property
    def sample(self) -> Sample:
        """One moment of it."""
        return self._crawl.sample(self._crawl.partitions)

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield what each partition has."""
        from bloomdupe.store.redis.redis_store import RedisStore

        for number in range(self._crawl.partitions):
            with RedisStore(self._crawl, number).snapshot() as snapshot:
                yield snapshot

    def records(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the records of this name of all partitions that have one."""
        for snapshot in self.snapshots():
            if (record := snapshot.record(name)) is not None:
                yield record

    @property
    def pending(self) -> int:
        """Requests that are pending or in flight, and not delayed."""
        return sum(snapshot.entries(QUEUE) for snapshot in self.snapshots())

    @property
    def delayed(self) -> int:
        """Delayed requests."""
        return sum(snapshot.entries(DELAYED) for snapshot in self.snapshots())

    def lines(self) -> Iterator[tuple[int, str, float]]:
        """Yield the items of the output: feed, line of JSON, Unix time."""
        client, key = self._crawl.client, self._crawl.keys.output
        for name, fields in client.ask("XRANGE", key, "-", "+"):
            when = int(name.split(b"-")[0]) / 1000
            for data in fields.values():
                for feed, line in lines_in(data):
                    yield feed, line, when
