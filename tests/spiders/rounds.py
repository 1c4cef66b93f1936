"""A spider with start requests that come with and without ``dont_filter``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from scrapy import Request

from spiders.follow import PutsOut


class Rounds(PutsOut):
    """Follows links; has an item for each page, and one for ``start()``."""

    name = "rounds"

    async def start(self) -> AsyncIterator[Any]:
        base = self.start_urls[0]
        yield Request(f"{base}a")
        yield Request(f"{base}a")  # a duplicate
        yield Request(f"{base}b", dont_filter=True)
        yield {"page": "start"}
