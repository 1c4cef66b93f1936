"""Third-party components of feeds, and receivers, in which a crawl may be killed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import scrapy
from common import Tree, item
from scrapy.exporters import CsvItemExporter
from scrapy.extensions.feedexport import ItemFilter
from scrapy.http import Response
from support.components import OfCrawler
from support.stops import call, pause
from table import idiom


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


class Receivers(OfCrawler):
    """An extension that listens to signals."""

    def checkpoint(self) -> None:
        call("receiver")

    request_scheduled = spider_closed = checkpoint

    async def item_scraped(self) -> None:
        await pause(0)
        call("receiver item_scraped")


@idiom(
    settings={
        # Before the feed exporter, so that it sees their changes.
        "EXTENSIONS": {f"{__name__}.Receivers": -5},
        "FEEDS": {
            "items.jsonl.gz": {
                "format": "jsonlines",
                "item_filter": f"{__name__}.Filter",
                "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"],
            },
            "kept:///items.csv": {
                "format": "table",
                "overwrite": True,
                "postprocessing": [f"{__name__}.Plugin"],
            },
        },
        "FEED_EXPORTERS": {"table": f"{__name__}.Table"},
        "FEED_STORAGES": {"kept": f"{__name__}.Storage"},
    },
)
class OtherComponents(Tree):
    """A plugin, an exporter, a filter and a storage of feeds, receivers of signals."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response, "one")
        yield from response.follow_all(css="a")
        yield item(response, "two")
