"""Spiders that follow links."""

from __future__ import annotations

from typing import Any

from scrapy import Spider
from scrapy.http import Response

from bloomdupe.crawl.changes.open_job import OpenJob


class Follow(Spider):
    """Follows every link; has no items."""

    name = "follow"

    def parse(self, response: Response) -> Any:
        yield from response.follow_all(css="a")


def without_room() -> None:
    """Let each request that a change makes pending raise an exception."""

    def push(*_: Any, **__: Any) -> None:
        raise RuntimeError("no room for it")

    OpenJob.push = push  # type: ignore[method-assign]


class AtOnce(Follow):
    """Follows every link; none is asked for before all of its page are scheduled."""

    name = "at_once"
    custom_settings = {"SCRAPER_SLOT_MAX_ACTIVE_SIZE": 0}
