"""Spider middlewares: they add, take away, change, and raise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from common import SITE, Tree, item, path_of
from scrapy.http import Response
from support.stops import pause
from table import idiom


class Changes:
    """Has the same outputs, asynchronous or not."""

    def outputs(self, response: Response, output: Any) -> list[Any]:
        if isinstance(output, scrapy.Request):
            other = output.replace(url=output.url + "?session=1")
            return [] if output.url.endswith("7") else [other]
        path = path_of(response.url)
        if path.startswith("/detail"):
            return [output]
        more = [{**output, "part": "added"}, scrapy.Request(f"{SITE}/detail{path}")]
        return [] if path.startswith("/5") else [output, *more]

    def process_spider_output(
        self, response: Response, result: Any, **_: Any
    ) -> Iterator[Any]:
        for output in result:
            yield from self.outputs(response, output)

    async def process_spider_output_async(
        self, response: Response, result: Any, **_: Any
    ) -> AsyncIterator[Any]:
        async for output in result:
            for mine in self.outputs(response, output):
                yield mine


@idiom(spider_middlewares={Changes: 100})
class MiddlewareChanges(Tree):
    """A spider middleware that adds, takes away and replaces items and requests."""


class Starts:
    async def process_start(self, start: Any) -> AsyncIterator[Any]:
        for number in range(5):
            yield scrapy.Request(f"{SITE}/detail/{number}")
        async for output in start:
            yield output
        await pause(0.01)
        for number in range(5, 10):
            yield scrapy.Request(f"{SITE}/detail/{number}")
        yield {"page": "middleware", "part": "start"}


@idiom(spider_middlewares={Starts: 100})
class MiddlewareStarts(Tree):
    """A spider middleware that yields more in process_start()."""


class Rescue:
    def process_spider_exception(
        self, response: Response, exception: Exception, **_: Any
    ) -> Any:
        found = item(response, type(exception).__name__)
        return [found, scrapy.Request(SITE + "/detail/9")]


@idiom(spider_middlewares={Rescue: 100})
class MiddlewareRescues(Tree):
    """process_spider_exception() yields instead of a callback that raised."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)
        if response.url.endswith(("2", "4")):
            raise ValueError("this page is not as it should be")


class Refuse:
    def process_spider_input(self, response: Response, **_: Any) -> None:
        if response.url.endswith("3"):
            raise ValueError("not for the spider")


@idiom(spider_middlewares={Refuse: 100})
class MiddlewareRefuses(Tree):
    """process_spider_input() raises, and the errback yields an item and a request."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        yield from response.follow_all(css="a", errback=self.failed)

    def failed(self, failure: Any) -> Iterator[Any]:
        yield {"page": "failure", "part": str(failure.value)}
        yield scrapy.Request(SITE + "/detail/1", self.page)
