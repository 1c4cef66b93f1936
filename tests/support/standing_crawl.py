"""A crawl on Redis without pages: the reference for the figures of a crawl."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from scrapy import Request

from bloomdupe.crawl.engines.on_redis.messages import ITEM, REQUEST, joined, payload_of
from bloomdupe.crawl.engines.on_redis.shared_totals import counts_of
from bloomdupe.crawl.leases.outcomes import Outcome
from bloomdupe.crawl.totals import Totals
from bloomdupe.feeds.journal import Journal
from bloomdupe.redis.partition import Offer, Settled
from bloomdupe.redis.shared_frontier import SharedFrontier
from bloomdupe.requests.serializer import Serializer
from support.jobs import SPIDER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bloomdupe.redis.partition import RedisLease
    from bloomdupe.redis.settled.tally import Numbers

IDENTITY = {
    "spider": "site",
    "fingerprinter": "a.B",
    "feeds": ["items.jsonl"],
    "exact": False,
}
PARTITIONS = 5
BYTES = 7
"""Bytes of a page."""
LONG = 3_600.0
"""Seconds; no lease of this length runs out in a test."""

_serializer = Serializer(SPIDER)
ITEM_OF_PAGE = Journal.packed([0], _serializer.dump_item({"a": "line"}))
"""What a worker puts out for the first feed."""


def offer_of(request: Request, slot: str) -> Offer:
    """Return a request as a worker offers it."""
    name = f"{slot} {request.method} {request.url}".encode()
    body = _serializer.dump(request)
    return Offer(slot, name, payload_of(REQUEST, name, body), request.priority)


def lines_of_start(*lines: bytes) -> Offer:
    """Return items of ``start()`` as a worker offers them."""
    name = b"items" + joined(lines)
    return Offer("", name, payload_of(ITEM, name, joined(lines)))


def counts_of_page(lease: RedisLease) -> Numbers:
    """Return the counts of a page with an item, as a worker gives them."""
    outcome = Outcome()
    outcome.items = 1
    outcome.answers.append((200, 1, lease.slot, BYTES))
    return counts_of(Totals().plus([outcome], 0.0, 0))


class StandingCrawl:
    """A crawl with some workers in this process; it counts its own requests."""

    def __init__(
        self,
        url: str,
        *,
        workers: Iterable[str] = ("one", "two"),
        lease_seconds: float = LONG,
    ) -> None:
        self.url = url
        self.workers = {
            name: SharedFrontier.open(
                url,
                10_000,
                partitions=PARTITIONS,
                worker=name,
                lease_seconds=lease_seconds,
                identity=IDENTITY,
            )
            for name in workers
        }
        for _ in range(2):  # the first worker gives back its surplus
            for worker in self.workers.values():
                worker.tend()
        self.waiting: Counter[str] = Counter()
        self.leased: dict[str, list[RedisLease]] = {name: [] for name in self.workers}
        self.taken_in = 0
        self.done = 0

    def offer(self, *offers: Offer) -> None:
        """Take in what is new."""
        first, *_ = self.workers.values()
        for one, new in zip(offers, first.offer(offers), strict=True):
            if new:
                self.taken_in += 1
                self.waiting[one.slot] += 1

    def fill(self, hosts: int, each: int) -> None:
        """Take in GET requests with three priorities, for a number of hosts."""
        self.offer(
            *(
                offer_of(
                    Request(f"https://{host}.example/{n}", priority=n % 3),
                    f"{host}.example",
                )
                for host in map("host{}".format, range(hosts))
                for n in range(each)
            )
        )

    def lease(self, worker: str, count: int) -> None:
        """Hand out so many, if the worker has them."""
        found = self.workers[worker].lease(count, count)
        self.leased[worker] += found
        self.waiting.subtract(lease.slot for lease in found)
        self.waiting += Counter()  # without those of which nothing is left

    def settle(self, worker: str, count: int) -> None:
        """Let some be done, each with an item, all in one step for each partition."""
        some, self.leased[worker] = (
            self.leased[worker][:count],
            self.leased[worker][count:],
        )
        assert len(some) == count
        frontier = self.workers[worker]
        done = [
            Settled(one, [ITEM_OF_PAGE], counts=counts_of_page(one)) for one in some
        ]
        assert frontier.settle(done) == []
        self.done += count

    def work_off(self) -> None:
        """Let all be done."""
        for name, worker in self.workers.items():
            worker.tend()
            for slot in [*self.waiting, *(one.slot for one in self.leased[name])]:
                worker.ask_again(slot)
            self.lease(name, 10_000)
            self.settle(name, len(self.leased[name]))

    def close(self) -> None:
        """Let all workers go."""
        for worker in self.workers.values():
            worker.close()
