"""Spiders that follow links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Spider

if TYPE_CHECKING:
    from scrapy.http import Response


class Follow(Spider):
    """Follows every link; has no items."""

    name = "follow"

    def parse(self, response: Response) -> Any:
        yield from response.follow_all(css="a")
