"""Several crawlers in one process, other reactors, and the program from scratch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scrapy
from common import SITE, item
from scrapy.http import Response
from scrapy.settings import Settings
from table import idiom

from everyday.callbacks import AsyncGenerator, Plain
from everyday.engine_calls import CrawlFromTimer, Idle
from everyday.inline import Inline
from everyday.pipelines import HERE as PIPELINES
from everyday.pipelines import Tree
from everyday.same_page import DetailChild

SELECT = {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"}
EPOLL = {"TWISTED_REACTOR": "twisted.internet.epollreactor.EPollReactor"}
NONE = {"TWISTED_REACTOR_ENABLED": False}
WAIT = {"ITEM_PIPELINES": {f"{PIPELINES}.Wait": 100}}


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


@idiom(settings=SELECT, variant_of="plain")
class SelectPlain(Plain):
    """The select reactor: a plain spider."""

    name = "select_plain"


@idiom(settings=SELECT, variant_of="async_generator")
class SelectAsync(AsyncGenerator):
    """The select reactor: an asynchronous generator."""

    name = "select_async"


@idiom(settings=SELECT, asks=1, variant_of="inline")
class SelectInline(Inline):
    """The select reactor: inline requests."""

    name = "select_inline"


@idiom(settings={**SELECT, **WAIT}, repeats=8, variant_of="adds")
class SelectPipeline(Tree):
    """The select reactor: a pipeline that waits."""

    name = "select_pipeline"


@idiom(settings=SELECT, moments=("child done",))
class SelectChild(DetailChild):
    """The select reactor: a child with dont_filter."""

    name = "select_child"


@idiom(settings=EPOLL, variant_of="plain")
class EpollPlain(Plain):
    """The epoll reactor: a plain spider."""

    name = "epoll_plain"


@idiom(settings=EPOLL)
class EpollTimer(CrawlFromTimer):
    """The epoll reactor: engine.crawl() from a timer."""

    name = "epoll_timer"


if "TWISTED_REACTOR_ENABLED" in Settings():  # from Scrapy 2.15 on

    @idiom(settings=NONE, variant_of="plain")
    class NonePlain(Plain):
        """Without a reactor: a plain spider."""

        name = "none_plain"

    @idiom(settings=NONE, variant_of="async_generator")
    class NoneAsync(AsyncGenerator):
        """Without a reactor: an asynchronous generator."""

        name = "none_async"

    @idiom(settings=NONE, asks=1, variant_of="inline")
    class NoneInline(Inline):
        """Without a reactor: inline requests."""

        name = "none_inline"

    @idiom(settings={**NONE, **WAIT}, repeats=8, variant_of="adds")
    class NonePipeline(Tree):
        """Without a reactor: a pipeline that waits."""

        name = "none_pipeline"

    @idiom(settings=NONE)
    class NoneIdle(Idle):
        """Without a reactor: spider_idle and engine.crawl()."""

        name = "none_idle"

    @idiom(settings=NONE, moments=("child done",))
    class NoneChild(DetailChild):
        """Without a reactor: a child with dont_filter."""

        name = "none_child"
