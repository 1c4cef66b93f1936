"""Third-party components, in each of which a crawl may be killed.

A plugin, an exporter, a filter and a storage of feeds, a pipeline, receivers of
signals, middlewares.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO, Any

import scrapy
from common import SITE, item
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exporters import CsvItemExporter
from scrapy.extensions.feedexport import ItemFilter
from scrapy.http import Request, Response
from support.components import OfCrawler
from support.stops import call, pause
from table import idiom

from bloomdupe.signals import checkpoint

HERE = "everyday.other_components"


class Plugin:
    def __init__(self, file: IO[bytes], feed_options: dict[str, Any]) -> None:
        self.file = file
        del feed_options

    def write(self, data: bytes) -> int:
        call("plugin write")
        return self.file.write(data)

    def close(self) -> None:
        call("plugin close")


class Table(CsvItemExporter):
    def export_item(self, item: Any) -> None:
        call("table export_item")
        super().export_item(item)

    def finish_exporting(self) -> None:
        call("table finish_exporting")
        super().finish_exporting()


class Filter(ItemFilter):
    def accepts(self, item: Any) -> bool:
        call("filter accepts")
        return bool(item)


class Storage:
    """Keeps a feed in the directory ``kept``."""

    def __init__(self, uri: str, *, feed_options: dict[str, Any] | None = None) -> None:
        self.place = Path("kept", uri.rpartition("/")[2])
        del feed_options

    def open(self, spider: scrapy.Spider) -> IO[bytes]:
        del spider
        return tempfile.TemporaryFile()

    def store(self, file: IO[bytes]) -> None:
        file.seek(0)
        self.place.parent.mkdir(exist_ok=True)
        call("storage store")
        self.place.write_bytes(file.read())
        file.close()
        call("storage stored")


class Pipeline:
    async def process_item(self, item: Any, *_: Any) -> Any:
        await pause(0)
        call("pipeline process_item")
        return item


class Receivers(OfCrawler):
    """An extension that listens to signals."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        for signal in (checkpoint, signals.request_scheduled, signals.spider_closed):
            crawler.signals.connect(self.receive, signal)
        crawler.signals.connect(self.item_scraped, signals.item_scraped)

    def receive(self) -> None:
        call("receiver")

    async def item_scraped(self) -> None:
        await pause(0)
        call("receiver item_scraped")


class SpiderMiddleware:
    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any], **_: Any
    ) -> AsyncIterator[Any]:
        del response
        async for output in result:
            call("middleware output")
            yield output


class DownloaderMiddleware:
    def process_response(self, request: Request, response: Response, **_: Any) -> Any:
        del request
        call("downloader response")
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
