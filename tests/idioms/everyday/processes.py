"""Several crawlers in one process, and the program from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scrapy
from common import SITE, item
from scrapy.http import Response
from table import idiom


class First(scrapy.Spider):
    """A spider of a process that has two."""

    name = "first_of_two"
    start_urls = [SITE + "/0"]
    custom_settings = {
        "JOBDIR": "job/first",
        "FEEDS": {"1.jsonl": {"format": "jsonlines"}, "1.csv": {"format": "csv"}},
    }

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response, "first")
        yield from response.follow_all(css="a")


class Second(First):
    """The other one."""

    name = "second_of_two"
    start_urls = [SITE + "/chain/0"]
    custom_settings = {
        "JOBDIR": "job/second",
        "FEEDS": {"2.jsonl": {"format": "jsonlines"}, "2.csv": {"format": "csv"}},
    }


@idiom(script="two_script.py", repeats=8)
class Two(First):
    """Two crawlers at a time in one process, each with its own JOBDIR."""

    name = "two"


@idiom(script="in_turn_script.py", repeats=8)
class InTurn(First):
    """Two crawlers in one process, one after the other."""

    name = "in_turn"
