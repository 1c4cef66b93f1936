"""A filter of one's own, and a spider that needs none."""

from __future__ import annotations

from typing import Any

from scrapy import Request, Spider
from support.counters import PerRun
from support.stops import moment

from bloomdupe import BloomDupeFilter


class Mine(BloomDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return not request.meta.get("again") and super().request_seen(request)


class Tree(Spider):
    """Each page of a tree is linked once, so it needs no filter."""

    name = "tree"
    pages = PerRun(0)

    async def start(self) -> Any:
        yield Request(self.start_urls[0] + "0", dont_filter=True)

    async def parse(self, response: Any) -> Any:
        number = int(response.url.rpartition("/")[2])
        yield {"page": number}
        for child in (2 * number + 1, 2 * number + 2):
            if child < 15:
                yield response.follow(f"/{child}")
        self.pages += 1
        await moment(self, f"page {self.pages}")
