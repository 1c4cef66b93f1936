"""Items of which some have the same title."""

from __future__ import annotations

from typing import Any

from crawler.items import Page
from spiders.follow import Follow


class Titles(Follow):
    """Three pages have the same title."""

    name = "titles"

    def parse(self, response: Any) -> Any:
        number = int(response.url.rpartition("/")[2])
        yield Page(response.url, 200, f"title {number % 40}", 0, "", 0, None, "")
        yield Page(response.url, 200, None, 0, "", 0, None, "")
        yield from super().parse(response)
