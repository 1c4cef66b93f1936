"""A shop with items, the parts that put them out, and the instants of a sudden end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy import Spider
from scrapy.exporters import BaseItemExporter, CsvItemExporter
from scrapy.extensions.feedexport import (
    BlockingFeedStorage,
    FeedExporter,
    S3FeedStorage,
)
from support.components import OfCrawler
from support.counters import PerRun
from support.stops import moment, stop_at


@dataclass
class Article:
    path: str
    number: int


@dataclass
class Special:
    path: str


class Shop(Spider):
    """Three items a page; can be stopped in its third page."""

    name = "shop"
    begun = PerRun(0)

    async def parse(self, response: Any) -> Any:
        self.begun += 1
        third = self.begun == 3
        path = urlsplit(response.url).path[1:]
        for number in range(3):
            yield self.item(path, number)
        if third:
            await moment(self, "third page")
        for request in response.follow_all(css="a"):
            yield request

    def item(self, path: str, number: int) -> Any:
        return {"path": path, "number": number, "text": 'a "b", ä\nc'}


class Articles(Shop):
    name = "articles"

    def item(self, path: str, number: int) -> Any:
        return Article(path, number)


class Strips(OfCrawler):
    """An extension that changes an item when it was exported."""

    def item_scraped(self, item: Any) -> None:
        item.number = None


class AtOnce(FeedExporter):
    """Scrapy's feed exporter under another name."""


class Wandering:
    """A pipeline that changes the working directory when it is made, and with items."""

    def __init__(self) -> None:
        self.process_item(None)

    def process_item(self, item: object) -> object:
        Path("elsewhere").mkdir(exist_ok=True)
        os.chdir("elsewhere")
        return item


class ByCategory(Articles):
    """The name of its feed depends on a parameter."""

    name = "by_category"

    @property
    def category(self) -> Any:
        return self.settings["CATEGORY"]


class Uneven(Shop):
    """A page has an item with two fields, another kind of item, and items with more."""

    name = "uneven"

    async def parse(self, response: Any) -> Any:
        path = urlsplit(response.url).path[1:]
        yield {"path": path, "number": 0}
        yield Special(path)
        async for output in super().parse(response):
            yield output


class NotForJson(Shop):
    name = "not_for_json"

    def item(self, path: str, number: int) -> Any:
        return {"path": path, "number": number, "x": {1}}


class OtherFields(Articles):
    """Its items have another field, before the others."""

    def item(self, path: str, number: int) -> Any:
        return {"more": "x", "path": path, "number": number}


class Unstorable(Shop):
    name = "unstorable"

    def item(self, path: str, number: int) -> Any:
        return {"x": (Path("a", "b"), bytearray(b"c"), {}.keys())[number]}


class Sums(BaseItemExporter):
    """Cannot be interrupted: says at the end how many items there were."""

    def __init__(self, file: Any, **kwargs: Any) -> None:
        super().__init__(dont_fail=True, **kwargs)
        self.file = file
        self.count = 0

    def export_item(self, item: Any) -> None:
        assert isinstance(item, Article)
        self.count += 1
        self.file.write(f"{item.path} {item.number}\n".encode())

    def finish_exporting(self) -> None:
        self.file.write(f"{self.count} items\n".encode())


class Semicolons(CsvItemExporter):
    def __init__(self, file: Any, **kwargs: Any) -> None:
        super().__init__(file, delimiter=";", **kwargs)


class Quotients(Sums):
    """Fails for the first item of each page."""

    def export_item(self, item: Any) -> None:
        assert 1 // item.number >= 0
        super().export_item(item)


class Mailbox(BlockingFeedStorage):
    """A storage of the user's: each delivery is a file."""

    closed = False

    def __init__(self, uri: str, *, feed_options: Any = None) -> None:
        self.folder = Path(uri.partition("//")[2].partition("#")[0])

    def _store_in_thread(self, file: Any) -> None:
        file.seek(0)
        if self.closed:
            raise OSError("the mailbox is closed")
        number = len([*self.folder.iterdir()])
        (self.folder / str(number)).write_bytes(file.read())
        stop_at("delivered")
        file.close()


def close_mailbox() -> None:
    Mailbox.closed = True


def stop_while_s3_reads() -> None:
    upload = S3FeedStorage._store_in_thread

    def dying(self: S3FeedStorage, file: Any) -> None:
        read = file.read

        def half(*size: int) -> None:
            if read(10):
                stop_at("upload")

        file.read = half
        upload(self, file)

    S3FeedStorage._store_in_thread = dying  # type: ignore[method-assign]
