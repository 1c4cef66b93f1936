"""Filters of duplicates that are not bloomdupe's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from common import Pages, item
from scrapy import Request
from scrapy.http import Response
from support.counters import PerRun
from support.stops import moment
from table import idiom

from bloomdupe import BloomDupeFilter

MOMENTS = ("page 1", "page 3")


class Own(BloomDupeFilter):
    def request_seen(self, request: Request) -> bool:
        return not request.meta.get("again") and super().request_seen(request)


@idiom(
    settings={"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"},
    moments=MOMENTS,
)
class Unfiltered(Pages):
    """No filter of duplicates; each page is linked once."""

    pages = PerRun(0)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield item(response)
        for request in response.follow_all(css="a"):
            yield request
        self.pages += 1
        await moment(self, f"page {self.pages}")


@idiom(
    settings={"DUPEFILTER_CLASS": f"{__name__}.Own"},
    moments=MOMENTS,
)
class OwnFilter(Unfiltered):
    """A filter of duplicates that the project has derived."""
