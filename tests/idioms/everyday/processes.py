"""Several crawlers in one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from common import SITE, Tree, item
from scrapy.http import Response
from table import idiom

from everyday.feeds import feeds


class First(Tree):
    """A spider of a process that has several."""

    name = "first"
    custom_settings = {"JOBDIR": "job/first", "FEEDS": feeds("1.*")}

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response, "first")
        yield from response.follow_all(css="a")


class Second(First):
    """It crawls at the same time."""

    name = "second"
    start_urls = [SITE + "/chain/0"]
    custom_settings = {"JOBDIR": "job/second", "FEEDS": feeds("2.*")}


class Third(First):
    """It crawls when both have ended."""

    name = "third"
    start_urls = [SITE + "/star"]
    custom_settings = {"JOBDIR": "job/third", "FEEDS": feeds("3.*")}


@idiom(script="several_script.py", repeats=8)
class Several(First):
    """Three crawlers in a process, with a JOBDIR each: two at a time, then one."""
