"""A spider with priorities for its requests."""

from __future__ import annotations

from typing import Any

from scrapy import Spider


class Site(Spider):
    name = "site"

    def parse(self, response: Any) -> Any:
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, priority=len(link) % 3)
