"""Job: the open parts of a crawl of a world, put together as a session does it."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Spider
from support.jobs import idle_crawler
from typing_extensions import Self

from bloomdupe.crawl.engines.checkpoint import Checkpoint, record_of
from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
from bloomdupe.crawl.in_flight.outcomes import Key, Outcomes
from bloomdupe.crawl.in_flight.registry import InFlightRegistry
from bloomdupe.crawl.in_flight.request import InFlightRequest
from bloomdupe.crawl.state.memory import SpiderMemory, blobs_of
from bloomdupe.errors import FeedError
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.frontier.frontier import Frontier

if TYPE_CHECKING:
    from world import World

FEEDS = {"out/items.jsonl": {"format": "jsonlines"}}
"""In the folder in which the folder of the job is."""


@contextmanager
def working_in(store: Path) -> Iterator[None]:
    """Work in the folder in which the folder of the job is: ``FOLDER/job/store``."""
    before = os.open(".", os.O_RDONLY)
    os.chdir(store.parents[1])
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)


@functools.cache
def _crawler() -> Any:
    crawler: Any = idle_crawler(FEEDS=FEEDS)
    crawler.spider = Spider.from_crawler(crawler, name="world")
    return crawler  # a Crawler with a spider that has a state


def get_ready() -> None:
    """Prepare the slow steps that all jobs have in common, for processes that fork."""
    _crawler()


class Ends(CrawlEngine):
    """Ends requests, all of which are stored and yield no other request."""

    def __init__(self, frontier: Frontier, outcomes: Outcomes) -> None:
        self.frontier = frontier
        self.outcomes = outcomes
        self.failures = None

    def _mark_acked(self, keys: Sequence[Key]) -> None:
        assert not keys


class Job:
    """Frontier, registry, feeds and checkpoint of a crawl of a world.

    Opening it finishes the feeds of the last run.
    """

    def __init__(self, store: Path, world: World) -> None:
        self._crawler = _crawler()
        self._spider: Any = self._crawler.spider
        self._spider.state = {}
        self._feeds: FeedExporter | None = None
        self._seen = world.open(store)
        try:
            self._open(store, world)
        except BaseException:
            self.close()
            raise

    def _open(self, store: Path, world: World) -> None:
        self.frontier = frontier = Frontier(self._seen)
        self._outcomes = Outcomes(store)
        self.registry = InFlightRegistry()
        self.registry.engine = Ends(frontier, self._outcomes)
        record = record_of(frontier)
        self._feeds = FeedExporter(self._crawler)
        if not world.feeds:
            self._feeds.feeds.clear()
        left = StoredFeeds(record, store, resumed=True)
        self._feeds.restore(left, self._put, _fail)
        self._feeds.open_spider(self._spider)
        memory = SpiderMemory(
            self._crawler, blobs_of(frontier), resumed=True, attributes=False
        )
        self.checkpoint = Checkpoint(
            self._crawler, frontier, self._outcomes, record, self._feeds
        )
        self.checkpoint.participants += [memory]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release store and feeds; nothing is written."""
        if self._feeds is not None:
            self._feeds.release()
        self._seen.close()

    def scraped(self, item: dict[str, Any], in_flight: InFlightRequest) -> None:
        """Take an item of a request that is through its pipelines."""
        if self._feeds is not None:
            self._feeds.item_scraped(item, in_flight, self._spider)

    def _put(self, in_flight: InFlightRequest, lines: list[tuple[int, bytes]]) -> None:
        try:
            for line in lines:
                self._outcomes.add_line(in_flight.outcome, line)
        except OSError as error:
            raise FeedError(f"cannot spill items: {error}") from error

    def count(self) -> None:
        """Count a request in ``spider.state``."""
        self._spider.state["done"] = self._spider.state.get("done", 0) + 1

    @property
    def counted(self) -> int:
        """How many requests were counted, as of the last checkpoint."""
        return int(self._spider.state.get("done", 0))


def _fail(error: Exception) -> None:
    raise error
