"""Spiders and pipelines with something to keep: state, totals, rows of a database."""

from __future__ import annotations

from typing import Any

from scrapy import Spider
from support.components import OfCrawler
from support.counters import PerRun
from support.stops import moment, pause, wanted
from twisted.internet.defer import Deferred


class Count(Spider):
    """Knows the pages it has seen; nothing goes on while it waits for its end."""

    name = "count"
    ending = PerRun(False)

    async def parse(self, response: Any) -> Any:
        while self.ending:
            await pause(0.01)
        path = response.url.rpartition("/")[2]
        seen = self.state.setdefault("seen", set())
        seen.add(path)
        name = f"{len(seen)} seen"
        self.ending = wanted(name)
        yield {"path": path}
        await moment(self, name)
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)

    def closed(self, reason: str) -> None:
        self.crawler.stats.set_value("seen", sorted(self.state.get("seen", ())))


class Unstorable(Count):
    name = "unstorable"

    async def parse(self, response: Any) -> Any:
        self.state["spider"] = response.url, object
        async for output in super().parse(response):
            yield output


class NoConnection:
    """A pipeline, on a bad day."""

    def open_spider(self, *_: Any) -> None:
        raise OSError("no connection")


class Failing(OfCrawler):
    """Fails to write its data before a checkpoint, if it is to fail."""

    rows = 0

    def process_item(self, item: Any, spider: Any = None) -> Any:
        self.rows += 1
        return item

    def checkpoint(self, spider: Any) -> Any:
        assert spider is self.crawler.spider
        if self.rows and self.crawler.settings["FAIL"]:
            raise OSError("the database is gone")


class Asynchronous(Failing):
    async def checkpoint(self) -> None:  # type: ignore[override]
        """Write nothing."""


class Deferring(Failing):
    def checkpoint(self) -> Any:  # type: ignore[override]
        """Say that it ends later."""
        return Deferred()
