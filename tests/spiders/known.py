"""Items of which some have the same title."""

from __future__ import annotations

from typing import Any

from scrapy import Spider

from crawler.items import Page


class Titles(Spider):
    """Three pages have the same title."""

    name = "titles"

    async def parse(self, response: Any) -> Any:
        number = int(response.url.rpartition("/")[2])
        yield Page(response.url, 200, f"title {number % 40}", 0, "", 0, None, "")
        yield Page(response.url, 200, None, 0, "", 0, None, "")
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
