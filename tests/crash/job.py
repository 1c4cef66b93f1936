"""Job: a crawl of a :class:`world.World`, without an engine.

It goes the way of production from the scheduler down: requests are marked and pushed,
handed out, and acknowledged with their requests and items; their items pass the feed
exporter; one checkpoint makes all of it durable.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from support.jobs import idle_crawler
from typing_extensions import Self

from bloomdupe.crawl.engines.checkpoint import Checkpoint
from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
from bloomdupe.crawl.in_flight.outcomes import Outcomes
from bloomdupe.crawl.in_flight.registry import InFlightRegistry
from bloomdupe.crawl.in_flight.request import InFlightRequest
from bloomdupe.errors import BloomDupeError
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.frontier.frontier import Frontier

if TYPE_CHECKING:
    from world import World

FEEDS = {"out/items.jsonl": {"format": "jsonlines"}}
"""In the folder in which the folder of the job is."""
SLOTS = 7
AT_ONCE = 16
"""Requests in flight."""
REFUSED = 3
"""The exit status of a clear error."""


@functools.cache
def crawler() -> Any:
    """Return what all jobs of a process share; slow, so call it before a fork."""
    crawler = idle_crawler(FEEDS=FEEDS)
    crawler.spider = Spider.from_crawler(crawler, name="world")
    return crawler


class Ends(CrawlEngine):
    """Ends requests, all of which are stored, succeed and yield no other request."""

    failures: Any = ()
    session: Any = SimpleNamespace(slots=SimpleNamespace(handed_out=id, ended=id))

    def __init__(self, frontier: Frontier, outcomes: Outcomes) -> None:
        self.frontier = frontier
        self.outcomes = outcomes


class Job:
    """Frontier, registry, feeds and checkpoint, put together as a session does it.

    It works in the folder in which the folder of the job is: ``FOLDER/job/store``.
    Opening it finishes the feeds of the last run; closing it writes nothing.
    """

    def __init__(self, store: Path, world: World) -> None:
        self.world = world
        with ExitStack() as stack:
            before = os.open(".", os.O_RDONLY)
            stack.callback(os.close, before)
            os.chdir(store.parents[1])
            stack.callback(os.fchdir, before)
            self._open(store, stack)
            self._close = stack.pop_all().close

    def _open(self, store: Path, stack: ExitStack) -> None:
        seen = self.world.open(store)
        stack.callback(seen.close)
        self.frontier = frontier = Frontier(seen)
        self._outcomes = Outcomes(store)
        stack.callback(self._outcomes.close)
        self._registry = InFlightRegistry()
        self._registry.engine = Ends(frontier, self._outcomes)
        self._checkpoint = Checkpoint(crawler(), frontier, self._outcomes)
        self._feeds = FeedExporter(crawler())
        stack.callback(self._feeds.release)
        if not self.world.feeds:
            self._feeds.feeds.clear()
        self._checkpoint.feeds = self._feeds
        left = StoredFeeds(self._checkpoint.record, store, resumed=True)
        self._feeds.restore(left)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _take(self, item: object, in_flight: InFlightRequest) -> None:
        for line in self._feeds.take(item)[0]:
            self._outcomes.add_line(in_flight.outcome, line)

    def crawl(
        self,
        report: Callable[[bytes], object],
        batch: int,
        *,
        stop_after: int | None = None,
        marks_first: bool = False,
        deaf: bool = False,
    ) -> None:
        """Crawl to the end, with a checkpoint after each ``batch`` requests.

        Without a word it stops after ``stop_after`` checkpoints. Two ways to be wrong,
        for the controls: ``marks_first`` makes every fingerprint durable before its
        request, as Scrapy does; ``deaf`` takes a failed checkpoint for a good one, and
        dies.
        """
        world, frontier, checkpoints = self.world, self.frontier, 0
        # The same for the same store, another seed for the next run.
        rng = random.Random(len(frontier.seen))
        under_way: list[tuple[int, InFlightRequest]] = []
        acked: list[int] = []
        self._enqueue(0, marks_first)
        while True:
            while len(under_way) < AT_ONCE and (entry := frontier.pop()):
                number = world.number_of(entry)
                report(b"s %d\n" % number)
                request = Request(f"http://world/{number}")
                under_way.append((number, self._registry.add(request, entry)))
            if under_way:
                number, in_flight = under_way.pop(rng.randrange(len(under_way)))
                for link in world.links(number):
                    self._enqueue(link, marks_first)
                for item in world.items(number):
                    self._take(item, in_flight)
                in_flight.ended()
                acked.append(number)
            if len(acked) < batch and under_way and not frontier.due:
                continue
            finished = not (frontier.pending or frontier.unacked)
            self._feeds.end(finished=finished)
            failed = not self._commit(deaf)
            report(b"a %b\n" % b" ".join(b"%d" % number for number in acked))
            acked.clear()
            if failed:
                os._exit(REFUSED)
            checkpoints += 1
            if checkpoints == stop_after:
                return
            if finished:
                report(b"finished\n")
                return

    def _enqueue(self, number: int, marks_first: bool) -> None:
        world, frontier = self.world, self.frontier
        if not frontier.seen.add(world.fingerprint(number)):
            return
        if marks_first:
            assert frontier.store is not None
            frontier.store.commit(frontier.seen.prepare())
        slot, priority = f"slot {number % SLOTS}", number % 3 - 1
        frontier.push(slot, priority, world.payload(number))

    def _commit(self, deaf: bool) -> bool:
        try:
            for send in self._checkpoint.steps():
                send()
        except BloomDupeError:
            if not deaf:
                raise
            return False
        return True
