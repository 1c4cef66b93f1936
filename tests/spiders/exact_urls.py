"""Follows links of all kinds: stored or in memory, with ``dont_filter`` or without."""

from __future__ import annotations

from threading import Lock
from typing import Any

from scrapy import Spider
from scrapy.http import Response


class Follow(Spider):
    """Has an item for each page."""

    name = "exact"

    def parse(self, response: Response) -> Any:
        yield {"page": "/" + response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a")
        yield from response.follow_all(css="b::attr(href)", dont_filter=True)
        # They cannot be stored.
        yield from response.follow_all(css="i::attr(href)", meta={"lock": Lock()})
