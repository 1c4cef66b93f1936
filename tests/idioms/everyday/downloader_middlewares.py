"""Downloader middlewares: they answer, ask for something else, or raise."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

from common import SITE, Pages, Tree, download, item
from scrapy import Request
from scrapy.http import HtmlResponse, Response
from support.components import OfCrawler
from support.stops import moment
from table import idiom


class TwoParts(Pages):
    """A page with a callback that is stopped between two items."""

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield item(response, 1)
        await moment(self, "half")
        yield item(response, 2)


class Repair:
    def process_exception(self, request: Request, exception: Any, **_: Any) -> Any:
        del exception
        if request.url.endswith("/1"):
            return request.replace(url=SITE + "/detail/1", dont_filter=True)
        return HtmlResponse(request.url, body=b"instead", request=request)


@idiom(downloader_middlewares={Repair: 900}, settings={"RETRY_ENABLED": False})
class AnswersException(Pages):
    """process_exception() answers with a response or a request."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        for number in range(6):
            yield response.follow(f"http://127.0.0.1:1/{number}")


class Inline(OfCrawler):
    """Has another request downloaded instead, as proxies and renderers do."""

    async def process_request(self, request: Request, **_: Any) -> Any:
        if "inline" in request.meta:
            return None
        other = request.replace(meta={**request.meta, "inline": True})
        return await download(self.crawler, other)


@idiom(downloader_middlewares={Inline: 10}, moments=("half",))
class InlineRequest(TwoParts):
    """A response that carries the request that was downloaded instead."""


class Slots:
    """Spreads requests over slots, as rotating proxies do."""

    numbers = itertools.count()

    def process_request(self, request: Request, **_: Any) -> None:
        request.meta.setdefault("download_slot", f"proxy{next(self.numbers) % 5}")


@idiom(
    downloader_middlewares={Slots: 610},
    settings={
        "AUTOTHROTTLE_ENABLED": True,
        "AUTOTHROTTLE_START_DELAY": 0.02,
        "AUTOTHROTTLE_MAX_DELAY": 0.03,
        "DOWNLOAD_DELAY": 0.01,
    },
)
class RotatingSlots(Tree):
    """A downloader middleware that sets the slot of each request; AutoThrottle."""
