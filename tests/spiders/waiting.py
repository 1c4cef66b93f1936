"""Spiders with requests for a point in time."""

from __future__ import annotations

import math
import time
from datetime import datetime, timedelta, timezone
from typing import Any

from scrapy import Request, Spider
from scrapy.exceptions import DontCloseSpider
from support.components import Listens
from support.counters import PerRun

from bloomdupe.frontier.frontier import Frontier

NOT_BEFORE, DELAY = "bloomdupe_not_before", "bloomdupe_delay"


def set_clock(seconds: float) -> None:
    """Let the clock of this process go wrong by so many seconds."""
    now = time.time
    time.time = lambda: now() + seconds
    # It has been imported before.
    defaults: Any = Frontier.__init__.__kwdefaults__
    defaults["wall"] = time.time


class Later(Spider):
    """/soon waits, and leads to /moved by a redirect, which does not wait again."""

    name = "later"
    handle_httpstatus_list = [404]

    def parse(self, response: Any) -> Any:
        wait = self.settings.getfloat("SECONDS")
        then = datetime.now(timezone.utc) + timedelta(seconds=wait)
        soon = response.follow("/soon", self.page, meta={DELAY: wait, "x": 1})
        yield soon
        assert DELAY in soon.meta, "it may be yielded again, and wait again"
        yield response.follow("/date", self.page, meta={NOT_BEFORE: then, "x": 1})
        yield response.follow("/past", self.page, meta={NOT_BEFORE: 0, "x": 1})
        yield response.follow("/ago", self.page, meta={DELAY: -5, "x": 1})
        yield response.follow("/now", self.page, meta={"x": 1})

    def page(self, response: Any) -> Any:
        assert response.meta["x"] == 1
        assert not {DELAY, NOT_BEFORE} & response.meta.keys()
        yield {"page": response.url}


class Bad(Later):
    name = "bad"
    values: list[dict[str, Any]] = [
        {NOT_BEFORE: "tomorrow"},
        {NOT_BEFORE: datetime(2030, 1, 1)},  # noqa: DTZ001 - the fault
        {NOT_BEFORE: math.nan},
        {NOT_BEFORE: 253402300800},
        {NOT_BEFORE: True},
        {DELAY: "5"},
        {DELAY: 10**5_000},
        {DELAY: 1e12},
        {DELAY: None},
        {NOT_BEFORE: 1, DELAY: 1},
    ]

    async def start(self) -> Any:
        yield Request(self.start_urls[0], dont_filter=True)
        if self.settings["BAD"]:
            yield Request(self.start_urls[0] + "start", meta={DELAY: "soon"})

    def parse(self, response: Any) -> Any:
        yield {"page": response.url}
        for number, meta in enumerate(self.values):
            if not self.settings["BAD"]:
                meta = {DELAY: 0}
            yield response.follow(f"/{number}", self.page, meta={**meta, "x": 1})
        odd = response.follow("/odd", self.page, meta={"x": 1})
        if self.settings["BAD"]:
            odd.priority = 0.5  # the constructor refuses it
        yield odd
        yield response.follow("/after", self.page, meta={"x": 1})


class Idle(Later, Listens):
    """Feeds itself when it is idle."""

    name = "idle"
    fed = PerRun(False)

    def spider_idle(self) -> None:
        if not self.fed:
            self.fed = True
            request = Request(self.start_urls[0] + "fed", self.page, meta={"x": 1})
            self.crawler.engine.crawl(request)
            raise DontCloseSpider
