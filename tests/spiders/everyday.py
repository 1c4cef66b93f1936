"""The features of everyday spiders in one: for crawls that several workers share.

Its requests and items can be distinguished by their contents.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from scrapy import FormRequest, Request, Spider
from scrapy.exceptions import DropItem
from scrapy.http import Response
from twisted.python.failure import Failure

HOSTS = 12
"""On which the pages seem to be: slots of the downloader."""


LATER = 0.3
"""Seconds."""
DAY = 86_400
"""Seconds, after which some pages are revisited."""
MOST = 90
"""Pages of a slot, more than any but ``trap`` has."""
TOO_MANY = 20
"""Pages of ``trap`` that are more than these."""


@dataclass
class Page:
    page: str
    part: str = ""


@dataclass
class Failed:
    """Has a feed of its own."""

    page: str


SETTINGS: dict[str, Any] = {
    "BLOOMDUPE_MAX_PAGES_PER_SLOT": MOST,
    "BLOOMDUPE_RETRY_BACKOFF": (0.05, 2, 0.2),
    "BLOOMDUPE_WAIT": 20,
    "CONCURRENT_REQUESTS": 8,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 3,
    "DOWNLOAD_DELAY": 0,
    "FEEDS": {
        f"{name}.jsonl": {
            "format": "jsonlines",
            "item_classes": [f"spiders.everyday.{class_}"],
        }
        for name, class_ in (("items", "Page"), ("failed", "Failed"))
    },
    "ITEM_PIPELINES": {"spiders.everyday.Choosy": 300},
    "LOG_LEVEL": "INFO",
    "RETRY_ENABLED": True,
    "RETRY_PRIORITY_ADJUST": -1,
    "RETRY_TIMES": 2,
}
"""The settings of both stock Scrapy, which ignores some, and the workers."""


def is_revisited(number: int) -> bool:
    """Whether a page is revisited; none of these fails."""
    return number % 20 == 7 and number % 14 != 9


class Choosy:
    """A pipeline that takes its time for some items, and drops some."""

    async def process_item(self, item: Page | Failed) -> Page | Failed:
        number = item.page.rpartition("/")[2].partition("?")[0]
        if number.isdigit():
            if int(number) % 6 == 1:
                await asyncio.sleep(0.003)  # noqa: TID251 - slow on purpose
            if int(number) % 17 == 16:
                raise DropItem(item.page)
        return item


class Everyday(Spider):
    """Follows all links of the pages with a number, and does something on each."""

    name = "everyday"

    @property
    def site(self) -> str:
        """Its URL, without last slash."""
        return self.start_urls[0]

    async def start(self) -> AsyncIterator[Any]:
        yield Page("start")
        yield Page("start")
        yield Request(f"{self.site}/0", dont_filter=True)
        yield Request(f"{self.site}/1", meta=self.on(1))
        # To the workers, these are added.
        for number in range(self.settings.getint("ADDED")):
            yield Request(f"{self.site}/added/{number}", self.parse_more)
        yield Page("started")

    def on(self, number: int) -> dict[str, Any]:
        return {"download_slot": f"host{number % HOSTS}"}

    def later(self, wanted: bool) -> dict[str, Any]:
        """Return meta that schedules a request for later; stock Scrapy ignores it."""
        return {"bloomdupe_delay": LATER} if wanted else {}

    def again(self, number: int) -> dict[str, Any]:
        """Return meta that has a page revisited; stock Scrapy ignores it."""
        return {"bloomdupe_revisit": DAY} if is_revisited(number) else {}

    def page(self, response: Response, part: str = "") -> Page:
        return Page(response.url.removeprefix(self.site), part)

    def parse(self, response: Response) -> Iterator[Any]:
        number = int(response.url.rpartition("/")[2])
        yield self.page(response)
        for href in response.css("a::attr(href)").getall():
            other = int(href[1:])
            yield response.follow(
                href,
                self.parser_of(other),
                priority=other % 3,
                meta=self.on(other) | self.later(other % 15 == 4) | self.again(other),
            )
        yield from self.more(number)

    def parser_of(self, number: int) -> Callable[..., Any]:
        """Return the callback of a page: some are of another kind."""
        if number % 14 == 9:
            return self.parse_badly
        return self.parse_inline if number % 10 == 6 else self.parse

    async def parse_inline(self, response: Response) -> AsyncIterator[Any]:
        """Download another page, and wait for it."""
        for output in self.parse(response):
            yield output
        path = response.url.removeprefix(self.site)
        request = Request(f"{self.site}/inline{path}")
        found = await self.crawler.engine.download_async(request)
        yield self.page(found, found.text)

    def parse_badly(self, response: Response) -> Iterator[Any]:
        """Fail at the end: the earlier output counts."""
        yield from self.parse(response)
        raise ValueError("as everyday spiders do")

    def more(self, number: int) -> Iterator[Request]:
        """Yield the requests of a page that are not for plain pages with a number."""
        if number % 5 == 0:
            # The same URL twice, distinguished by the arguments.
            for part in "ab":
                where = self.on(number) | self.later(part == "b")
                yield self.asked("again", number, part, dont_filter=True, meta=where)
        if number % 6 == 1:
            yield self.asked("flaky", number)
        if number % 7 == 0:
            yield Request(f"{self.site}/partial/{number}", partial(self.page, part=""))
            # Such a callback cannot be stored. Many pages lead to it.
            yield Request(
                f"{self.site}/common/{number % 4}",
                self.in_memory(self.parse_menu),
                meta=self.on(number % 4),
            )
        if number % 8 == 4:
            for part in ("name", "place"):
                yield self.asked("form", number, part, formdata={part: str(number)})
        if number % 12 == 8:
            yield self.round(number, 3)
        if number == 3:
            where = {"download_slot": "trap"}
            yield Request(f"{self.site}/trap/0", self.parse_trap, meta=where)
        yield from self.failing(number)
        if number % 11 == 3:
            # In the slot of its target, like every request that leads there.
            yield self.asked("moved", number, meta=self.on(number % 5))

    def failing(self, number: int) -> Iterator[Request]:
        """Yield requests that fail."""
        if number % 9 == 2:
            yield self.asked("missing", number, errback=self.failed)
        if number % 13 == 3:
            yield self.asked("broken", number, errback=self.failed)

    def asked(self, name: str, number: int, part: str = "", **more: Any) -> Request:
        return FormRequest(
            f"{self.site}/{name}/{number}",
            callback=self.parse_more,
            cb_kwargs={"part": part},
            **{"meta": self.on(number), **more},
        )

    def parse_more(self, response: Response, part: str = "") -> Iterator[Any]:
        yield self.page(response, part)

    def parse_trap(self, response: Response) -> Iterator[Any]:
        """Lead to more pages of a slot than there may be."""
        yield self.page(response)
        more = TOO_MANY if self.settings["ADDONS"] else 0  # stock has no limit
        for number in range(1, MOST + more):
            url = f"{self.site}/trap/{number}"
            yield Request(url, self.parse_more, meta={"download_slot": "trap"})

    def failed(self, failure: Failure) -> Iterator[Any]:
        response = failure.value.response  # type: ignore[union-attr]
        yield Failed(response.url.removeprefix(self.site))

    def round(self, number: int, left: int) -> Request:
        """Ask for the same page again and again."""
        return Request(
            f"{self.site}/round/{number}",
            self.parse_round,
            dont_filter=True,
            cb_kwargs={"number": number, "left": left},
            meta=self.on(number),
        )

    def in_memory(self, parse: Callable[..., Any]) -> Callable[[Response], Any]:
        """Return a callback that cannot be stored, because it has a list."""
        parts = ["menu"]
        return lambda response: parse(response, *parts)

    def parse_menu(self, response: Response, part: str) -> Iterator[Any]:
        """Lead on, once in memory and once not."""
        yield self.page(response, part)
        where = {"download_slot": response.meta["download_slot"]}
        more = f"{response.url}/on"
        yield Request(more, self.in_memory(self.page), meta=where)
        yield Request(f"{response.url}/off", self.page, meta=where)

    def parse_round(self, response: Response, number: int, left: int) -> Iterator[Any]:
        yield self.page(response, str(left))
        if left:
            yield self.round(number, left - 1)
