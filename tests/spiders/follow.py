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


class AtOnce(Follow):
    """Yields all links of a page before any of them is asked for."""

    name = "at_once"

    def parse(self, response: Response) -> Any:
        engine: Any = self.crawler.engine
        engine.pause()
        yield from super().parse(response)
        self.all_yielded()
        engine.unpause()

    def all_yielded(self) -> None:
        """Do nothing more."""
