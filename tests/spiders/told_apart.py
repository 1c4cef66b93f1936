"""Requests for one page that differ by one value only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response
from support.counters import PerRun
from support.stops import moment


class Languages(Spider):
    """Asks for the page in each language."""

    name = "languages"

    async def start(self) -> AsyncIterator[Request]:
        for value in ("de", "en", "fr"):
            given = self.given(value)
            yield Request(self.start_urls[0], dont_filter=True, **given)

    def given(self, value: str) -> dict[str, Any]:
        return {"headers": {"Accept-Language": value}}

    def parse(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        sent = response.request.headers["Accept-Language"]
        assert sent is not None
        yield {"page": response.meta.get("_account", sent.decode())}


class Accounts(Languages):
    """Asks for the page by each account."""

    def given(self, value: str) -> dict[str, Any]:
        return {"meta": {"_account": value}}


class Pool:
    """Gives a request without a jar one of the pool, another one in each run."""

    jar = 0

    def process_request(self, request: Request, spider: object = None) -> None:
        request.meta.setdefault("cookiejar", Pool.jar)


class Jars(Spider):
    """Fetches a page by each jar of the pool."""

    name = "jars"
    done = PerRun(0)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        for jar in range(3):
            meta = {"cookiejar": jar}
            if self.settings.getbool("COPIES"):
                meta = {**response.meta, **meta}
            yield Request(response.url, self.by_jar, meta=meta, dont_filter=True)
            await moment(self, "first", when=lambda: self.done == 1, alone=True)

    def by_jar(self, response: Response) -> Iterator[Any]:
        yield {"page": response.meta["cookiejar"]}
        self.done += 1


def other_jar() -> None:
    Pool.jar = 2
