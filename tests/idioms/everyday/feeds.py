"""Feeds: -o and -O, batches, columns, compression, custom_settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from common import SITE, Pages, Tree, item
from scrapy.http import Response
from table import idiom


def feeds(name: str, **options: Any) -> dict[str, Any]:
    """Return feeds of JSON lines and CSV, the names of which differ in the suffix."""
    return {
        name.replace("*", suffix): {"format": kind, **options}
        for suffix, kind in (("jsonl", "jsonlines"), ("csv", "csv"))
    }


def batches(size: int) -> dict[str, Any]:
    """Return the settings of feeds with so many items in a file."""
    return {
        "FEEDS": feeds("out/%(batch_id)d.*"),
        "FEED_EXPORT_BATCH_ITEM_COUNT": size,
    }


GZIP = {"postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"]}


@idiom(settings={"FEEDS": {}}, arguments=("-o", "o.jsonl", "-o", "o.csv"))
class Append(Tree):
    """-o, twice."""


@idiom(settings={"FEEDS": {}}, arguments=("-O", "o.jsonl", "-O", "o.csv"))
class Overwrite(Tree):
    """-O, twice."""


@idiom(settings=batches(4))
class Batches(Tree):
    """A file for every four items."""


@idiom(settings=batches(1))
class OneAPiece(Pages):
    """A file for every item, and many items from one page."""

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(40):
            yield item(response, number)


@idiom(settings={"FEEDS": feeds("items.*.gz", **GZIP, overwrite=True)})
class Compressed(Tree):
    """Compressed feeds, of which little is written before the end."""


@idiom(settings={"FEEDS": feeds("items.*.gz", **GZIP)})
class CompressedBlocks(Tree):
    """Compressed feeds of items so long that a few of them make up a block."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response, "x" * 20_000)
        yield from response.follow_all(css="a")


@idiom(settings={"FEED_EXPORT_FIELDS": None})
class Columns(Tree):
    """The first item decides on the columns."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {**item(response), "size": len(response.body)}
        yield from response.follow_all(css="a")


@idiom()
class CustomSettings(Tree):
    """custom_settings with feeds, limits and a pipeline of the spider's own."""

    custom_settings = {
        "FEEDS": feeds("own/items.*", fields=["page"]),
        "DEPTH_LIMIT": 2,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 2,
        "ITEM_PIPELINES": {"everyday.pipelines.OldStyle": 1, "recorder.Recorder": 1000},
    }


@idiom()
class Large(Pages):
    """Pages with many items of some length."""

    start_urls = [f"{SITE}/detail/{number}" for number in range(6)]

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(50):
            yield item(response, f"{number} " + "x" * 2000)


@idiom()
class Alike(Pages):
    """Items that are alike to the letter: each counts."""

    start_urls = [f"{SITE}/detail/{number}" for number in range(10)]

    def parse(self, response: Response) -> Iterator[Any]:
        del response
        yield {"page": "any", "part": "same"}
