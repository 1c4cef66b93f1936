"""Pages that answer otherwise when they are asked again, and their earlier requests."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import CloseSpider
from support.counters import PerRun
from support.stops import moment

from spiders.functions import Kept


class Parent(Spider):
    name = "parent"
    children = PerRun(0)

    async def start(self) -> Any:
        yield Request(self.start_urls[0], errback=self.failed, dont_filter=True)

    async def parse(self, response: Any) -> Any:
        if response.text == "captcha":
            if self.settings.getbool("BY_HELPER"):
                yield get_retry_request(response.request, spider=self, reason="captcha")
            else:
                yield response.request.replace(dont_filter=True)
            return
        yield {"page": "early"}
        for name in "abc":
            yield response.follow("/" + name, self.child, dont_filter=True)
        yield response.follow("/marked", self.child)
        await moment(
            self, "children are done", when=lambda: self.children == 4, alone=True
        )
        yield {"page": "late"}
        yield response.follow("/d", self.child, dont_filter=True)

    def child(self, response: Any) -> Any:
        yield {"page": response.url.rpartition("/")[2]}
        self.children += 1

    def failed(self, failure: Any) -> Any:
        yield failure.request.replace(dont_filter=True)


class Linked(Parent):
    """A link leads to the page."""

    name = "linked"

    async def start(self) -> Any:
        yield Request(self.start_urls[0] + "hub", self.lead)

    def lead(self, response: Any) -> Any:
        yield response.follow("/", self.parse)


class Polling(Spider):
    """Asks for a page that its own retry or redirect asks for, too."""

    name = "polling"
    children = PerRun(0)

    async def parse(self, response: Any) -> Any:
        depth = response.meta["depth"]
        if depth == 0:
            yield response.follow(self.settings["CHILD"], dont_filter=True)
            await moment(
                self, "children are done", when=lambda: self.children == 1, alone=True
            )
        yield {"page": str(depth)}
        self.children += 1


class Closing(Spider):
    """Has items that differ from run to run, such as those of a files pipeline."""

    name = "closing"

    def parse(self, response: Any) -> Any:
        for number in range(6):
            yield {"page": str(number), "process": os.getpid()}
            if number == 3 and not Path("closed").exists():
                Path("closed").touch()
                raise CloseSpider("enough")
        yield response.follow("/d", self.child, dont_filter=True)

    def child(self, response: Any) -> Any:
        yield {"page": response.url.rpartition("/")[2]}


class ClosingInMemory(Closing):
    """The start request cannot be stored."""

    async def start(self) -> Any:
        yield Request(self.start_urls[0], meta={"object": Kept()})


class ClosingOrBanned(Closing):
    """As a later version of the spider is."""

    def parse(self, response: Any) -> Any:
        if response.text == "captcha":
            yield {"page": "captcha"}
            raise CloseSpider("banned")
        yield from super().parse(response)


class ClosingOrRetried(Closing):
    """Is never banned: it says so, and asks again."""

    def parse(self, response: Any) -> Any:
        if response.text == "captcha":
            yield {"page": "captcha"}
            yield response.request.replace(dont_filter=True)
            return
        yield from super().parse(response)


class Banned(Spider):
    """Is closed by the page's new answer, after an item that says so."""

    name = "banned"

    async def start(self) -> Any:
        yield Request(self.start_urls[0], errback=self.failed, dont_filter=True)

    def parse(self, response: Any) -> Any:
        text = response.text
        if text == "captcha":
            yield {"page": "captcha"}
            raise CloseSpider("banned")
        yield {"page": "0"}
        yield {"page": "1"}
        if text == "first":
            raise CloseSpider("enough")
        yield {"page": "2"}

    def failed(self, failure: Any) -> Any:
        yield {"page": "failed"}
        raise CloseSpider("failed")


class BannedAtOnce(Banned):
    """Is closed before it yields anything."""

    name = "banned_at_once"

    def parse(self, response: Any) -> Any:
        if response.text == "captcha":
            raise CloseSpider("banned")
        yield from super().parse(response)

    def failed(self, failure: Any) -> Any:
        raise CloseSpider("banned")
