"""Spiders with callbacks that are no methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import Response
from support.counters import PerRun

from spiders.idle import HearsIdle


class Tree(Spider):
    """Follows all links."""

    def item(self, response: Response, steps: int) -> dict[str, Any]:
        assert steps >= 0
        return {"page": int(response.url.rpartition("/")[2])}


class Lambdas(Tree):
    """Each page leads on with a lambda."""

    name = "lambdas"

    def parse(self, response: Response, steps: int = 0) -> Iterator[Any]:
        yield self.item(response, steps)
        for link in response.css("a"):
            yield response.follow(link, lambda r: self.parse(r, steps + 1))


class Kept:
    """An object that no request is stored with."""


class OnceMore(Spider):
    """A request in memory asks for its own page once more, without its object."""

    name = "once_more"

    def parse(self, response: Response) -> Iterator[Any]:
        yield response.follow("/page", self.again, meta={"object": Kept()})
        yield response.follow("/memory", lambda r: self.found(r, response))

    def again(self, response: Response) -> Iterator[Any]:
        if "object" in response.meta:
            yield response.follow(response.url, self.again, dont_filter=True)
        else:
            yield from self.found(response)

    def found(self, response: Response, before: Any = None) -> Iterator[Any]:
        yield {"page": response.url.rpartition("/")[2]}


class AgainBeside(OnceMore):
    """A page asks for itself once more, and leads to a request in memory."""

    name = "again_beside"

    def parse(self, response: Response) -> Iterator[Any]:
        if "again" in response.meta:
            yield {"page": "again"}
            return
        again = {"again": True}
        yield response.follow(response.url, self.parse, dont_filter=True, meta=again)
        yield response.follow("/memory", lambda r: self.found(r, response))


class Retries(OnceMore):
    """A request in memory is retried by its callback, after it has yielded a child."""

    name = "retries"

    def parse(self, response: Response) -> Iterator[Any]:
        yield response.follow("/page", self.again, meta={"object": Kept()})

    def again(self, response: Response) -> Iterator[Any]:
        yield response.follow("/child", self.found, dont_filter=True)
        if "retry_times" not in response.meta:
            yield get_retry_request(response.request, spider=self, reason="again")


class ByHand(OnceMore, HearsIdle):
    """A request in memory that no page has yielded leads to another, and that on."""

    name = "by_hand"
    led = PerRun(False)

    def parse(self, response: Response) -> Iterator[Any]:
        yield from ()

    def idle(self) -> None:
        if not self.led:
            self.led = True
            url = f"{self.start_urls[0]}page"
            page = Request(url, lambda response: self.lead(response, response))
            assert self.crawler.engine is not None
            self.crawler.engine.crawl(page)

    def lead(self, response: Response, before: Response) -> Iterator[Any]:
        yield response.follow("/memory", lambda r: self.end(r, before))

    def end(self, response: Response, before: Response) -> Iterator[Any]:
        assert before.url != response.url
        yield {"page": "memory"}
        yield response.follow("/child", self.found, dont_filter=True)
