"""Item pipelines that drop, wait, add, download and fail; and media pipelines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scrapy
from common import SITE, download, item
from itemadapter import ItemAdapter
from itemloaders.processors import TakeFirst
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.loader import ItemLoader
from support.stops import limit_files, pause, wanted
from table import idiom

HERE = "everyday.pipelines"


class Tree(scrapy.Spider):
    """Yields an item for each page and follows all links, like most spiders here."""

    start_urls = [SITE + "/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response, "one")
        yield from response.follow_all(css="a")
        yield item(response, "two")


class Wait:
    async def process_item(self, item: Any, *_: Any) -> Any:
        await pause(0.03 if item["part"] == "one" else 0.002)
        return item


class Add:
    def process_item(self, item: Any, *_: Any) -> Any:
        item["part"] += f" of {len(item['page'])}"
        return item


@idiom(settings={"ITEM_PIPELINES": {f"{HERE}.Add": 100, f"{HERE}.Wait": 200}})
class Adds(Tree):
    """A pipeline that adds to a field, before a pipeline that waits."""

    name = "adds"


class Fetch:
    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Fetch:
        return cls(crawler)

    async def process_item(self, item: Any, *_: Any) -> Any:
        url = f"{SITE}/detail{item['page']}?{item['part']}"
        response = await download(self.crawler, scrapy.Request(url))
        item["part"] += f" {response.status}"
        return item


@idiom(settings={"ITEM_PIPELINES": {f"{HERE}.Fetch": 100}}, asks=2)
class Fetches(Tree):
    """A pipeline that downloads something for each item."""

    name = "fetches"


class OldStyle:
    """Returns Deferreds, as before coroutines."""

    def process_item(self, item: Any, *_: Any) -> Any:
        from twisted.internet import reactor
        from twisted.internet.task import deferLater

        loop: Any = reactor
        return deferLater(loop, 0.01, lambda: item)


@idiom(settings={"ITEM_PIPELINES": {f"{HERE}.OldStyle": 100}})
class Deferreds(Tree):
    """A pipeline that returns Deferreds."""

    name = "deferreds"


# Kinds of items


@dataclass
class Page:
    page: str
    part: str


class PageItem(scrapy.Item):
    page = scrapy.Field(output_processor=TakeFirst())
    part = scrapy.Field(output_processor=TakeFirst())


@idiom(settings={"ITEM_PIPELINES": {f"{HERE}.Wait2": 100}})
class Kinds(Tree):
    """Dataclasses, Items and dictionaries, some of them from an ItemLoader."""

    name = "kinds"

    def parse(self, response: Response) -> Iterator[Any]:
        found = item(response)
        yield Page(found["page"], "dataclass")
        loader = ItemLoader(PageItem(), response=response)
        loader.add_value("page", [found["page"]])
        loader.add_css("part", "p::text")
        yield loader.load_item()
        yield from response.follow_all(css="a")


class Wait2:
    async def process_item(self, item: Any, *_: Any) -> Any:
        await pause(0.002)
        adapter = ItemAdapter(item)
        adapter["part"] = f"{adapter.get('part')} seen"
        return item


# Media


class Digest:
    """Adds checksums of the downloaded files to the item."""

    def process_item(self, item: Any, *_: Any) -> Any:
        parts = []
        for file in item["files"]:
            data = Path("files", file["path"]).read_bytes()
            parts.append(hashlib.sha256(data).hexdigest()[:8])
        item["part"] = " ".join(parts)
        return item


MEDIA = {
    "ITEM_PIPELINES": {
        "scrapy.pipelines.files.FilesPipeline": 100,
        f"{HERE}.Digest": 200,
    },
    "FILES_STORE": "files",
}


@idiom(settings=MEDIA, asks=2)
class Files(scrapy.Spider):
    """FilesPipeline: two files for each item, some of them for several."""

    name = "files"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a", callback=self.parse_detail)

    def parse_detail(self, response: Response) -> Iterator[Any]:
        number = int(response.url.rpartition("/")[2])
        found = item(response)
        found["file_urls"] = [f"{SITE}/file/{number}", f"{SITE}/file/{number // 4}"]
        yield found


@idiom(
    settings=MEDIA,
    moments=("torn",),
    asks=1,
    said_instead="full/",
)
class TornFile(scrapy.Spider):
    """FilesPipeline, stopped while it writes a file."""

    name = "torn_file"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        if wanted("torn"):
            limit_files("torn", 1 << 10)
        found = item(response)
        found["file_urls"] = [SITE + "/file/1"]
        yield found
