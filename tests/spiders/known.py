"""Items of which a database knows some, in a pipeline that forgets about kills."""

from __future__ import annotations

import sqlite3
from typing import Any

from scrapy import Spider
from scrapy.exceptions import DropItem

from crawler.items import Page


class Careless:
    """As most people write it: an item counts as known before it is put out."""

    def open_spider(self, *_: Any) -> None:
        self.database = sqlite3.connect("careless.db", isolation_level=None)
        self.database.execute("CREATE TABLE IF NOT EXISTS known (title PRIMARY KEY)")

    def process_item(self, item: Any, *_: Any) -> Any:
        try:
            self.database.execute("INSERT INTO known VALUES (?)", (item.title,))
        except sqlite3.IntegrityError:
            raise DropItem("known") from None
        return item


class Titles(Spider):
    """Three pages have the same title."""

    name = "titles"

    async def parse(self, response: Any) -> Any:
        number = int(response.url.rpartition("/")[2])
        yield Page(response.url, 200, f"title {number % 40}", 0, "", 0, None, "")
        yield Page(response.url, 200, None, 0, "", 0, None, "")
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
