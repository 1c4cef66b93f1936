"""Feeds: -o and -O, batches, columns, compression, custom_settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scrapy
from common import SITE, Tree, item
from scrapy.http import Response
from table import idiom


@idiom(settings={"FEEDS": {}}, arguments=("-o", "o.jsonl", "-o", "o.csv"))
class Append(Tree):
    """-o, twice."""

    name = "append"


@idiom(settings={"FEEDS": {}}, arguments=("-O", "o.jsonl", "-O", "o.csv"))
class Overwrite(Tree):
    """-O, twice."""

    name = "overwrite"


@idiom(
    settings={
        "FEEDS": {
            "out/%(batch_id)d.jsonl": {"format": "jsonlines"},
            "out/%(batch_id)d.csv": {"format": "csv"},
        },
        "FEED_EXPORT_BATCH_ITEM_COUNT": 4,
    },
)
class Batches(Tree):
    """A file for every four items."""

    name = "batches"


@idiom(
    settings={
        "FEEDS": {
            "out/%(batch_id)d.jsonl": {"format": "jsonlines"},
            "out/%(batch_id)d.csv": {"format": "csv"},
        },
        "FEED_EXPORT_BATCH_ITEM_COUNT": 1,
    },
)
class OneAPiece(scrapy.Spider):
    """A file for every item, and many items from one page."""

    name = "one_a_piece"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(40):
            yield item(response, number)


def compressed(**options: Any) -> dict[str, Any]:
    """Feeds of JSON lines and CSV, both compressed."""
    plugin = "scrapy.extensions.postprocessing.GzipPlugin"
    return {
        f"items.{name}.gz": {"format": kind, "postprocessing": [plugin], **options}
        for name, kind in (("jsonl", "jsonlines"), ("csv", "csv"))
    }


@idiom(settings={"FEEDS": compressed(overwrite=True)})
class Compressed(Tree):
    """Compressed feeds, of which little is written before the end."""

    name = "compressed"


@idiom(settings={"FEEDS": compressed()})
class CompressedBlocks(Tree):
    """Compressed feeds of items so long that a few of them make up a block."""

    name = "compressed_blocks"

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response, "x" * 20_000)
        yield from response.follow_all(css="a")


@idiom(settings={"FEED_EXPORT_FIELDS": None})
class Columns(Tree):
    """The first item decides on the columns."""

    name = "columns"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {**item(response), "size": len(response.body)}
        yield from response.follow_all(css="a")


@idiom()
class CustomSettings(Tree):
    """custom_settings with feeds, limits and a pipeline of the spider's own."""

    name = "custom_settings"
    custom_settings = {
        "FEEDS": {
            "own/items.jsonl": {"format": "jsonlines", "fields": ["page"]},
            "own/items.csv": {"format": "csv", "fields": ["page"]},
        },
        "DEPTH_LIMIT": 2,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
        "ITEM_PIPELINES": {"everyday.pipelines.Wait": 1, "recorder.Recorder": 1000},
    }


@idiom()
class Large(scrapy.Spider):
    """Pages with many items of some length."""

    name = "large"
    start_urls = [f"{SITE}/detail/{number}" for number in range(6)]

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(50):
            yield item(response, f"{number} " + "x" * 2000)


@idiom()
class Unlike(scrapy.Spider):
    """Items that are alike to the letter: each counts."""

    name = "alike"
    start_urls = [f"{SITE}/detail/{number}" for number in range(10)]

    def parse(self, response: Response) -> Iterator[Any]:
        del response
        yield {"page": "any", "part": "same"}
