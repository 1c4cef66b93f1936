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


GZIP = {"postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"]}


@idiom(settings={"FEEDS": {}}, arguments=("-o", "o.jsonl", "-o", "o.csv"))
class Append(Tree):
    """-o, twice."""


@idiom(
    settings={"FEEDS": feeds("out/%(batch_id)d.*"), "FEED_EXPORT_BATCH_ITEM_COUNT": 1}
)
class OneAPiece(Pages):
    """A file for every item, and many items from one page."""

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(40):
            yield item(response, number)


@idiom(settings={"FEEDS": feeds("items.*.gz", **GZIP, overwrite=True)})
class Compressed(Tree):
    """Compressed feeds, of which little is written before the end."""


@idiom()
class Alike(Pages):
    """Items that are alike to the letter: each counts."""

    start_urls = [f"{SITE}/detail/{number}" for number in range(10)]

    def parse(self, response: Response) -> Iterator[Any]:
        del response
        yield {"page": "any", "part": "same"}
