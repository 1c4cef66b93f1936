"""A spider that goes wrong in many ways; each page says in which."""

from __future__ import annotations

import os
from typing import Any

from scrapy import Request, Spider
from scrapy.exceptions import DropItem, IgnoreRequest
from support.stops import moment


class Wrong(Spider):
    name = "wrong"
    handle_httpstatus_list = [410]
    custom_settings = {
        "ITEM_PIPELINES": {"spiders.giving_up.Pipeline": 1},
        "DOWNLOADER_MIDDLEWARES": {"spiders.giving_up.Refuses": 1},
    }

    def parse(self, response: Any) -> Any:
        for href in response.css("a::attr(href)").getall():
            callback = "break_" if "break" in href else "parse"
            errback = "fail" if "fail" in href else None
            errback = "raise_" if "raise" in href else errback
            fails = errback and getattr(self, errback)
            yield response.follow(href, getattr(self, callback), errback=fails)
        yield {"url": response.url}

    async def break_(self, response: Any) -> Any:
        yield {"url": response.url}
        raise RuntimeError("half way")

    def fail(self, failure: Any) -> Any:
        yield {"url": failure.request.url}

    def raise_(self, failure: Any) -> None:
        raise ZeroDivisionError("errback")


class HalfWay(Wrong):
    """Yields a request, and fails."""

    def parse(self, response: Any) -> Any:
        if response.url.endswith("/x"):
            yield response.follow("/child", dont_filter=True)
            raise RuntimeError("half way")


class Copies(Wrong):
    """Its links have the ``meta`` of their page."""

    def parse(self, response: Any) -> Any:
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, meta=response.meta)


class Lasting(Wrong):
    """Its ``start()`` has not ended when it is killed."""

    async def start(self) -> Any:
        for url in self.start_urls:
            yield Request(url)
        stats, failed = self.crawler.stats, "httperror/response_ignored_count"
        await moment(self, "failed", when=lambda: stats.get_value(failed))


class AsksAgain(Wrong):
    """Has retries of its own, and counts them."""

    def fail(self, failure: Any) -> Any:
        meta = {**failure.request.meta, "tries": 1}
        if "tries" not in failure.request.meta:
            yield failure.request.replace(dont_filter=True, meta=meta)


class MuteError(TimeoutError):
    """An exception without a text."""

    def __str__(self) -> str:
        return str(self.args[1])


class Pipeline:
    def process_item(self, item: Any, spider: Any = None) -> Any:
        if "item" in item["url"]:
            raise KeyError("no price")
        if "drop" in item["url"]:
            raise DropItem("not wanted")
        return item


class Refuses:
    def process_request(self, request: Any, spider: Any = None) -> None:
        request.meta["process"] = os.getpid()  # as one that chooses proxies does
        if "ignored" in request.url:
            raise IgnoreRequest("on purpose")
        if "lost" in request.url:
            raise MuteError("too slow")
