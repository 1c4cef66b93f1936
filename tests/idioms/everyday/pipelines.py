"""Item pipelines that wait and change items; and media pipelines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scrapy
from common import SITE, Pages, Tree, item
from itemadapter import ItemAdapter
from itemloaders.processors import TakeFirst
from scrapy.http import Response
from scrapy.loader import ItemLoader
from scrapy.pipelines.files import FilesPipeline
from support.stops import call, limit_files, pause, wanted
from table import idiom


class OldStyle:
    """Returns Deferreds, as before coroutines."""

    def process_item(self, item: Any, *_: Any) -> Any:
        from twisted.internet import reactor
        from twisted.internet.task import deferLater

        loop: Any = reactor
        return deferLater(loop, 0.01, lambda: item)


# Kinds of items


@dataclass
class Page:
    page: str
    part: str


class PageItem(scrapy.Item):
    page = scrapy.Field(output_processor=TakeFirst())
    part = scrapy.Field(output_processor=TakeFirst())


class SaysSeen:
    """Changes items, and waits longer for the first of a page."""

    async def process_item(self, item: Any, *_: Any) -> Any:
        await pause(0.03 if isinstance(item, Page) else 0.002)
        call("pipeline process_item")
        adapter = ItemAdapter(item)
        adapter["part"] = f"{adapter.get('part')} seen"
        return item


@idiom(item_pipelines={SaysSeen: 100, OldStyle: 200})
class Kinds(Tree):
    """Dataclasses, Items and dictionaries; pipelines that wait, and change them."""

    def parse(self, response: Response) -> Iterator[Any]:
        found = item(response)
        yield Page(found["page"], "dataclass")
        loader = ItemLoader(PageItem(), response=response)
        loader.add_value("page", [found["page"]])
        loader.add_css("part", "p::text")
        yield loader.load_item()
        yield from response.follow_all(css="a")
        yield item(response, "dictionary")


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


MEDIA: dict[str, Any] = {
    "item_pipelines": {FilesPipeline: 100, Digest: 200},
    "settings": {"FILES_STORE": "files"},
}


@idiom(**MEDIA, asks=2)
class Files(Pages):
    """FilesPipeline: two files for each item, some of them for several."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a", callback=self.parse_detail)

    def parse_detail(self, response: Response) -> Iterator[Any]:
        number = int(response.url.rpartition("/")[2])
        files = [f"{SITE}/file/{number}", f"{SITE}/file/{number // 4}"]
        yield {**item(response), "file_urls": files}


@idiom(**MEDIA, moments=("torn",), asks=1)
class TornFile(Pages):
    """FilesPipeline, stopped while it writes a file."""

    def parse(self, response: Response) -> Iterator[Any]:
        if wanted("torn"):
            limit_files("torn", 1 << 10)
        yield {**item(response), "file_urls": [SITE + "/file/1"]}
