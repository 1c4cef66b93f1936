"""Third-party components: each of their calls can be made to fail, wait, or change.

A plugin, exporters, a filter and a storage of feeds, a pipeline, receivers of signals,
middlewares. F19 of ``tests/crash`` changes their calls; undisturbed they work as they
should. A call is named by its component and, where it has one, by its page or item.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import IO, Any

import scrapy
from common import SITE, item, path_of
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter
from scrapy.extensions.feedexport import ItemFilter
from scrapy.extensions.postprocessing import GzipPlugin
from scrapy.http import Request, Response
from support.stops import call, pause
from table import idiom

from bloomdupe.signals import checkpoint

HERE = "everyday.other_components"
WHILE = 0.1
"""Seconds to wait: some checkpoints long."""


def meddle(name: str, given: Any = None) -> str | None:
    """Pass a call; ``given`` is its argument."""
    what = call(f"{name} {label(given)}".strip())
    if what == "wait":
        time.sleep(WHILE)
    return what


async def meddle_later(name: str, given: Any = None) -> str | None:
    """Do the same in a coroutine: the crawl goes on while it waits."""
    what = call(f"{name} {label(given)}".strip())
    if what == "wait":
        await pause(WHILE)
    return what


def label(given: Any) -> str:
    """Name a request, a response or an item."""
    if isinstance(given, (Request, Response)):
        return path_of(given.url)
    return "" if given is None else f"{given['page']} {given['part']}"


def hidden() -> None:
    """Cannot be stored: it has no name that can be imported."""


hidden.__qualname__ = "<locals>.hidden"


# Feeds


class Plugin:
    def __init__(self, file: IO[bytes], feed_options: dict[str, Any]) -> None:
        meddle("plugin open")
        self.file = file
        del feed_options

    def write(self, data: bytes) -> int:
        if meddle("plugin write") == "change":
            self.file.flush()
        return self.file.write(data)

    def close(self) -> None:
        meddle("plugin close")


def watch_scrapys_own() -> None:
    """Meddle with Scrapy's own plugin and exporter.

    A feed is written while the crawl runs only if it has both of Scrapy.
    """
    for name in ("write", "close"):
        method = getattr(GzipPlugin, name)
        setattr(GzipPlugin, name, meddled(f"gzip {name}", method))
    export = JsonLinesItemExporter.export_item

    def export_item(self: Any, item: Any) -> None:
        if meddle("lines export_item", item) == "change":
            item["part"] = "changed by lines"
        export(self, item)

    JsonLinesItemExporter.export_item = export_item  # type: ignore[method-assign]


def meddled(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def watched(self: Any, *args: Any) -> Any:
        meddle(name)
        return method(self, *args)

    return watched


class Table(CsvItemExporter):
    def start_exporting(self) -> None:
        meddle("table start_exporting")
        super().start_exporting()

    def export_item(self, item: Any) -> None:
        if meddle("table export_item", item) == "change":
            item["part"] = "changed by table"
        super().export_item(item)

    def finish_exporting(self) -> None:
        meddle("table finish_exporting")
        super().finish_exporting()


class Filter(ItemFilter):
    def accepts(self, item: Any) -> bool:
        return meddle("filter accepts", item) != "change"


class Storage:
    """Keeps a feed in the directory ``kept``."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        self.place = Path("kept", uri.rpartition("/")[2])
        del feed_options

    def open(self, spider: scrapy.Spider) -> IO[bytes]:
        del spider
        meddle("storage open")
        return tempfile.TemporaryFile()

    def store(self, file: IO[bytes]) -> None:
        what = meddle("storage store")
        file.seek(0)
        self.place.parent.mkdir(exist_ok=True)
        self.place.write_bytes(file.read())
        if what == "change":
            file.truncate(0)
        file.close()


# The rest


class Pipeline:
    def open_spider(self, *_: Any) -> None:
        meddle("pipeline open_spider")

    async def process_item(self, item: Any, *_: Any) -> Any:
        if await meddle_later("pipeline process_item", item) == "change":
            return {**item, "part": "changed by the pipeline"}
        return item

    def close_spider(self, *_: Any) -> None:
        meddle("pipeline close_spider")


class Receivers:
    """An extension that listens to all signals."""

    REQUESTS = (
        "request_scheduled", "request_dropped", "request_reached_downloader",
        "request_left_downloader", "headers_received", "bytes_received",
    )  # fmt: skip
    RESPONSES = ("response_received", "response_downloaded")
    OTHERS = (
        "engine_started", "spider_opened", "spider_idle", "spider_closed",
        "engine_stopped", "feed_slot_closed", "feed_exporter_closed",
    )  # fmt: skip

    def __init__(self, crawler: Crawler) -> None:
        watch_scrapys_own()
        self.receivers: list[Any] = []
        self.connect = crawler.signals.connect
        for name in self.REQUESTS:
            self.listen(name, of_request)
        for name in self.RESPONSES:
            self.listen(name, of_response)
        for name in self.OTHERS:
            self.listen(name, of_nothing)
        self.listen("item_scraped", of_item)
        self.listen("checkpoint", of_nothing, checkpoint)
        self.connect(self.item_scraped, signals.item_scraped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Receivers:
        return cls(crawler)

    def listen(
        self, name: str, make: Callable[[str], Any], signal: object = None
    ) -> None:
        receiver = make(f"receiver {name}")
        self.receivers.append(receiver)  # the signal holds no reference to it
        self.connect(receiver, signal or getattr(signals, name))

    async def item_scraped(self, item: Any) -> None:
        await meddle_later("later receiver item_scraped", item)


# Scrapy gives a receiver those arguments that it names.


def of_request(name: str) -> Callable[[Request], None]:
    def receive(request: Request) -> None:
        if meddle(name, request) == "change":
            request.meta["hidden"] = hidden

    return receive


def of_response(name: str) -> Callable[[Response], None]:
    def receive(response: Response) -> None:
        if meddle(name, response) == "change":
            response.meta["hidden"] = hidden

    return receive


def of_item(name: str) -> Callable[[Any], None]:
    def receive(item: Any) -> None:
        if meddle(name, item) == "change":
            item["part"] = "changed by a receiver"

    return receive


def of_nothing(name: str) -> Callable[[], None]:
    def receive() -> None:
        if meddle(name) == "change" and name.endswith("spider_idle"):
            raise DontCloseSpider

    return receive


class SpiderMiddleware:
    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for output in start:
            yield self.changed(output, await meddle_later("middleware start", output))

    def process_spider_input(self, response: Response, **_: Any) -> None:
        if meddle("middleware input", response) == "change":
            response.meta["hidden"] = hidden

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any], **_: Any
    ) -> AsyncIterator[Any]:
        name = f"middleware output {label(response)}:"
        async for output in result:
            yield self.changed(output, await meddle_later(name, output))

    def changed(self, output: Any, what: str | None) -> Any:
        if what != "change":
            return output
        if isinstance(output, Request):
            return output.replace(priority=3, meta={"hidden": hidden})
        return {**output, "part": "changed by a middleware"}


class DownloaderMiddleware:
    def process_request(self, request: Request, **_: Any) -> None:
        if meddle("downloader request", request) == "change":
            request.meta["hidden"] = hidden

    def process_response(self, request: Request, response: Response, **_: Any) -> Any:
        if meddle("downloader response", request) == "change":
            return response.replace(body=b"<p>changed")
        return response


@idiom(
    settings={
        "DOWNLOADER_MIDDLEWARES": {f"{HERE}.DownloaderMiddleware": 300},
        # Before the feed exporter, so that it sees their changes.
        "EXTENSIONS": {f"{HERE}.Receivers": -5},
        "FEEDS": {
            "items.jsonl.gz": {
                "format": "jsonlines",
                "item_filter": f"{HERE}.Filter",
                "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"],
            },
            "kept:///items.csv": {
                "format": "table",
                "overwrite": True,
                "postprocessing": [f"{HERE}.Plugin"],
            },
        },
        "FEED_EXPORTERS": {"table": f"{HERE}.Table"},
        "FEED_STORAGES": {"kept": f"{HERE}.Storage"},
        "ITEM_PIPELINES": {f"{HERE}.Pipeline": 100},
        "SPIDER_MIDDLEWARES": {f"{HERE}.SpiderMiddleware": 300},
    },
)
class OtherComponents(scrapy.Spider):
    """Plugins, exporters, a storage, a pipeline, receivers, third-party middlewares."""

    name = "other_components"
    start_urls = [SITE + "/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response, "one")
        yield from response.follow_all(css="a")
        yield item(response, "two")
