"""A spider with start requests that meet the filter."""

from __future__ import annotations

from typing import Any

from scrapy import Request, Spider


class PlainStart(Spider):
    name = "plain"

    async def start(self) -> Any:
        for url in self.start_urls:
            yield Request(url)

    def parse(self, response: Any) -> None:
        """Yield nothing."""
