"""Several crawlers in one process, and the program from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from common import SITE, Tree, item
from scrapy.http import Response
from table import idiom

from everyday.feeds import feeds


class First(Tree):
    """A spider of a process that has two."""

    name = "first_of_two"
    custom_settings = {"JOBDIR": "job/first", "FEEDS": feeds("1.*")}

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response, "first")
        yield from response.follow_all(css="a")


class Second(First):
    """The other one."""

    name = "second_of_two"
    start_urls = [SITE + "/chain/0"]
    custom_settings = {"JOBDIR": "job/second", "FEEDS": feeds("2.*")}


@idiom(script="two_script.py", repeats=8)
class Two(First):
    """Two crawlers at a time in one process, each with its own JOBDIR."""


@idiom(script="in_turn_script.py", repeats=8)
class InTurn(First):
    """Two crawlers in one process, one after the other."""
