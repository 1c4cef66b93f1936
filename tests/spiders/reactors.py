"""A spider for any kind of loop, and a Ctrl-C while the crawl is opened."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.dupefilters import RFPDupeFilter
from support.stops import moment


class CtrlC(RFPDupeFilter):
    def open(self) -> None:
        done = Path("interrupted")
        if not done.exists():
            done.touch()
            signal.raise_signal(signal.SIGINT)


class Loops(Spider):
    name = "loops"

    async def parse(self, response: Any) -> Any:
        if response.url.endswith("/d"):
            await moment(self, "d")
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)

    def closed(self, reason: str) -> None:
        reactor = sys.modules.get("twisted.internet.reactor")
        self.crawler.stats.set_value("reactor", type(reactor).__name__)
