"""Order and pace: priorities, queues, depth, delays, robots.txt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from common import SITE, Pages, Tree
from scrapy.http import Response
from table import idiom


@idiom(
    settings={
        "DEPTH_PRIORITY": 1,
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    },
)
class BreadthFirst(Tree):
    """Breadth first, as Scrapy's documentation has it."""


@idiom(settings={"DOWNLOAD_DELAY": 0.01, "AUTOTHROTTLE_ENABLED": True})
class Throttled(Pages):
    """AutoThrottle."""

    start_urls = [f"{SITE}/detail/{number}" for number in range(6)]
    custom_settings = {
        "AUTOTHROTTLE_START_DELAY": 0.01,
        "AUTOTHROTTLE_MAX_DELAY": 0.02,
    }


# Of several requests that wait for robots.txt, Scrapy 2.19 tells one what is in it.
@idiom(settings={"ROBOTSTXT_OBEY": True, "CONCURRENT_REQUESTS": 1}, repeats=4)
class Robots(Tree):
    """ROBOTSTXT_OBEY, with a page that is not allowed."""


@idiom()
class State(Tree):
    """Counts in spider.state, and says so in each item."""

    def parse(self, response: Response) -> Iterator[Any]:
        state = self.__dict__.setdefault("state", {})
        state.setdefault("pages", set()).add(response.url)
        yield from super().parse(response)
