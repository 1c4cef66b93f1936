"""Pages whose children have copies of values that a middleware sets."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from support.counters import PerRun
from support.stops import moment


class Sessions:
    """A middleware with a session for each process."""

    def process_request(self, request: Request, spider: object = None) -> None:
        session = f"session {os.getpid()}"
        request.meta["session"] = session
        request.meta["began"] = time.time()
        request.headers["Authorization"] = f"Bearer {session}"
        request.headers["X-Session"] = session


class Arrivals:
    """A spider middleware that says when a page came."""

    def process_spider_input(self, response: Response, spider: object = None) -> None:
        response.meta["came"] = time.time()


CHILDREN = 8
MIDDLEWARES: dict[str, Any] = {
    "DOWNLOADER_MIDDLEWARES": {"spiders.copies.Sessions": 500},
    "SPIDER_MIDDLEWARES": {"spiders.copies.Arrivals": 500},
}


class Copies(Spider):
    """Each child has copied some of the page's values, in another way."""

    name = "copies"
    children = PerRun(0)

    async def start(self) -> AsyncIterator[Request]:
        yield Request(self.start_urls[0], meta={"given": "by the spider"})

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        page, meta = response.request, response.meta
        assert page is not None
        ways: list[dict[str, Any]] = [
            {"meta": meta},
            {"meta": {**meta, "given": "otherwise"}},
            {"meta": {"session": meta["session"]}},
            {"headers": page.headers},
            {"headers": {"X-Session": page.headers["X-Session"]}},
            {"headers": page.headers, "meta": meta, "cookies": {"a": "1"}},
        ]
        copies = [
            Request(page.url, self.child, dont_filter=True, cb_kwargs={"n": n}, **way)
            for n, way in enumerate(ways)
        ]
        copies.append(page.replace(callback=self.child, dont_filter=True))
        # A request in memory: it has a function that cannot be stored.
        number = itertools.count(100)
        copies.append(
            page.replace(callback=lambda _: self.found(next(number)), dont_filter=True)
        )
        for request in copies:
            yield request
        await moment(
            self, "children", when=lambda: self.children == CHILDREN, alone=True
        )
        yield {"page": "page"}

    def child(self, _: Response, n: int = -1) -> Iterator[Any]:
        yield from self.found(n)

    def found(self, n: int) -> Iterator[Any]:
        yield {"page": n}
        self.children += 1


class Fails(Spider):
    name = "fails"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"page": response.url}
