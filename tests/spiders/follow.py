"""Spiders that follow links."""

from __future__ import annotations

from typing import Any

from scrapy import Spider
from scrapy.http import Response


class Follow(Spider):
    """Has no items."""

    name = "follow"

    def parse(self, response: Response) -> Any:
        yield from response.follow_all(css="a")


class PutsOut(Follow):
    """Puts out each page, and follows every link."""

    name = "puts_out"

    def parse(self, response: Response) -> Any:
        yield {"page": response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a")


class AtOnce(Follow):
    """Follows every link; none is asked for before all of its page are scheduled."""

    name = "at_once"
    custom_settings = {"SCRAPER_SLOT_MAX_ACTIVE_SIZE": 0}


class Unstorable(Follow):
    """Its requests below the first page have a value that cannot be stored."""

    name = "unstorable"

    def parse(self, response: Response) -> Any:
        value: Any = lambda: None  # noqa: E731 - a lambda is the point
        for request in response.follow_all(css="a"):
            yield request.replace(meta={"value": value})
