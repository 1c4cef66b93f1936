"""Common parts of the spiders: the address of the site, items, a tree, downloads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import scrapy
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response

SITE = os.environ.get("SITE", "")
"""Where it is, without last slash."""


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


def item(response: Response, part: object = "") -> dict[str, Any]:
    """An item of a page, or of a part of it."""
    return {"page": path_of(response.url), "part": part}


class Pages(scrapy.Spider):
    """Yields an item for each page, and begins at the star."""

    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Any:
        yield item(response)

    def page(self, response: Response) -> Iterator[Any]:
        """Yield the item, where ``parse`` does more."""
        yield item(response)


class Tree(Pages):
    """Yields an item for each page and follows all links, like most spiders here."""

    start_urls = [SITE + "/0"]

    def parse(self, response: Response) -> Any:
        yield item(response)
        yield from response.follow_all(css="a")


async def download(crawler: Crawler | None, request: Request) -> Response:
    """Download a page in the midst of something: an inline request."""
    engine: Any = crawler.engine  # type: ignore[union-attr]
    response: Response = await engine.download_async(request)
    return response


def once(name: str) -> bool:
    """Whether no run of this crawl has been here before."""
    place = Path(f"{name}.once.log")
    if place.exists():
        return False
    place.touch()
    return True
