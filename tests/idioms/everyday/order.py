"""Order and pace: priorities, queues, depth, delays, robots.txt."""

from __future__ import annotations

from common import Tree
from table import idiom


# Of several requests that wait for robots.txt, Scrapy 2.19 tells one what is in it.
@idiom(settings={"ROBOTSTXT_OBEY": True, "CONCURRENT_REQUESTS": 1}, repeats=4)
class Robots(Tree):
    """ROBOTSTXT_OBEY, with a page that is not allowed."""
