"""Spiders of the workers that share a crawl."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urljoin
from zlib import crc32

import scrapy
from scrapy import Request, Spider, signals
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.utils.request import RequestFingerprinter
from support.stops import pause

HOSTS = 7
"""On which the pages of one site seem to be: slots of the downloader."""


def on(number: int) -> dict[str, str]:
    """Return the meta of a request for a page."""
    return {"download_slot": str(number % HOSTS)}


class InMemory:
    """A callback that cannot be stored: an object."""

    def __init__(self, parse: Any) -> None:
        self.parse = parse

    def __call__(self, response: Response) -> Any:
        return self.parse(response)


class All(Spider):
    """All pages of a site, as if they were on seven hosts."""

    name = "all"

    def number(self, response: Response) -> int:
        return int(response.url.rpartition("/")[2].rpartition("?")[2])

    def in_memory(self, parse: Any) -> Any:
        """Return a callback that cannot be stored."""
        return InMemory(parse)

    def parse(self, response: Response) -> Any:
        if self.settings.getbool("BLOCK"):
            time.sleep(1_000_000)
        yield {"page": self.number(response)}
        for href in response.css("a::attr(href)").getall():
            number = int(href[1:])
            if number < self.settings.getint("PAGES", 1_000):
                yield response.follow(href, meta=on(number))


class Poison(All):
    """The callback of one page returns when it runs again, or there is ``over``."""

    name = "poison"

    def parse(self, response: Response) -> Any:
        if self.number(response) == 5 and not Path("over").exists():
            tries = len([*Path().glob("try*")])
            Path(f"try{tries}").touch()
            while not (Path(f"try{tries + 1}").exists() or Path("over").exists()):
                time.sleep(0.01)
        yield from super().parse(response)


class Timed(All):
    """Says when the downloader has sent the request for a page."""

    name = "timed"
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}

    @classmethod
    def from_crawler(cls, crawler: Any, *arguments: Any, **options: Any) -> Any:
        spider = super().from_crawler(crawler, *arguments, **options)
        crawler.signals.connect(spider.answered, signals.headers_received)
        return spider

    def answered(self, request: Request) -> None:
        slots = self.crawler.engine.downloader.slots  # type: ignore[union-attr]
        request.meta["asked"] = slots[request.meta["download_slot"]].lastseen

    def parse(self, response: Response) -> Any:
        asked = {"asked": response.meta["asked"]}
        for output in super().parse(response):
            yield output | asked if isinstance(output, dict) else output


class Everyday(All):
    """As everyday spiders do."""

    name = "everyday"

    async def start(self) -> Any:
        yield {"page": "start"}
        yield {"page": "start"}
        async for request in super().start():
            yield request

    def parse(self, response: Response) -> Any:
        yield from super().parse(response)
        number = self.number(response)
        if number % 5 == 0:
            for part in "ab":
                yield Request(
                    response.url + "?again", self.parse_again, dont_filter=True,
                    cb_kwargs={"part": part},
                )  # fmt: skip
        if number % 7 == 0:
            # Such a callback cannot be stored.
            memory = self.in_memory(lambda response: {"page": response.url[-9:]})
            yield Request(response.url + "?memory", memory)
        if number % 11 == 0:
            moved = {"part": "moved"}
            yield response.follow("/moved", self.parse_again, cb_kwargs=moved)

    def parse_again(self, response: Response, part: str) -> Any:
        yield {"page": f"{response.url.rpartition('/')[2]} {part}"}


class Alone(All):
    """None of its requests can be stored, and they wait for their turn."""

    name = "alone"
    custom_settings = {"DOWNLOAD_DELAY": 0.3, "RANDOMIZE_DOWNLOAD_DELAY": False}

    async def start(self) -> Any:
        for number in range(6):
            url = self.start_urls[0][:-1] + str(number)
            parse = self.in_memory(lambda response: {"page": self.number(response)})
            yield Request(url, parse)


class Other(All):
    """The same by another name."""

    name = "other"


class Closing(All):
    """Ends in the middle."""

    name = "closing"

    def parse(self, response: Response) -> Any:
        if self.settings.getbool("CLOSE") and self.number(response) == 9:
            raise CloseSpider("enough")
        yield from super().parse(response)


class Plain(All):
    """Follows all links."""

    name = "plain"

    def parse(self, response: Response) -> Any:
        yield {"page": response.url.rpartition("/")[2]}
        yield from response.follow_all(css="a")


class Counting(Plain):
    """Counts its pages in ``spider.state``."""

    def parse(self, response: Response) -> Any:
        del response
        self.state["pages"] = self.state.get("pages", 0) + 1
        yield {"page": self.state["pages"]}


class StartsInMemory(All):
    """Its start requests cannot be stored, nor can their children."""

    name = "starts_in_memory"

    async def start(self) -> Any:
        for number in range(3):
            url = urljoin(self.start_urls[0], f"/{number}")
            parse = self.in_memory(self.parse_start)
            yield Request(url, parse, meta=on(number), dont_filter=True)

    def parse_start(self, response: Response) -> Any:
        yield {"page": self.number(response)}
        parse = self.in_memory(self.parse)
        yield response.follow("/4", parse, meta=on(4), dont_filter=True)


class Before(Plain):
    """Its requests are for a method that no other spider has."""

    def parse(self, response: Response) -> Any:
        yield response.follow("/1", self.old, meta=on(1))
        for number in range(2, 5):
            yield response.follow(f"/{number}", self.leaf, meta=on(number))

    def old(self, response: Response) -> Any:
        del response
        yield {"page": "old"}

    def leaf(self, response: Response) -> Any:
        yield {"page": response.url.rpartition("/")[2]}


class After(Before):
    """The next version."""

    old = None  # type: ignore[assignment]


class Hosts(Spider):
    """Hands on its meta, as many do: the parts that Scrapy has written come along."""

    name = "hosts"

    def parse(self, response: Response) -> Any:
        yield {"page": response.url}
        for href in response.css("a::attr(href)").getall():
            meta = response.meta if "meta" in response.url else None
            yield response.follow(href, meta=meta, priority=9 * ("links" in href))


# The next ones say in files of their folder how far they are, and wait for files.


async def file(name: str) -> None:
    while not Path(name).exists():
        await asyncio.sleep(0.02)


class Fingerprinter(RequestFingerprinter):
    """Fails for some pages until it is mended."""

    def fingerprint(self, request: Request) -> bytes:
        if request.url.endswith("bad") and not Path("mended").exists():
            raise KeyError("no id")
        return super().fingerprint(request)


class Slow:
    """A pipeline that is not through when the page breaks off."""

    async def process_item(self, item: Any) -> Any:
        await asyncio.sleep(0)
        return item


class Pages(All):
    """Twenty pages on hosts of their own."""

    name = "pages"

    async def start(self) -> Any:
        Path(f"ready{os.getpid()}").touch()
        await file("go")
        for n in range(20):
            url = self.start_urls[0] + f"?{n}"
            yield Request(url, meta={"download_slot": f"host{n}"})


class Parked(Pages):
    """One host; requests that cannot be stored are in memory all the time."""

    name = "parked"
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}

    async def start(self) -> Any:
        yield Request(self.start_urls[0])

    def parse(self, response: Response) -> Any:
        for n in range(60):
            yield Request(f"{response.url}?{n}", self.leaf)
        for n in range(60, 100):
            url = f"{response.url}?{n}"
            yield Request(url, self.in_memory(self.leaf), priority=-1)

    def leaf(self, response: Response) -> Any:
        yield {"page": self.number(response)}


class Broken(Pages):
    """Something other than the callback breaks off, on six pages."""

    name = "broken"
    custom_settings = {
        "ITEM_PIPELINES": {Slow: 1},
        "REQUEST_FINGERPRINTER_CLASS": Fingerprinter,
        "SPIDER_MIDDLEWARES": {"bloomdupe.LinkFilter": None},
    }

    def parse(self, response: Response) -> Any:
        yield {"page": self.number(response)}
        yield {"page": self.number(response)}
        if self.number(response) < 6:
            yield Request(response.url + "bad", self.done)
            yield {"after": self.number(response)}

    def done(self, response: Response) -> Any:
        yield {"bad": response.url[-4:]}


class Kept(Pages):
    """Each page leads to the same link, which cannot be stored."""

    name = "kept"

    def parse(self, response: Response) -> Any:
        yield {"page": self.number(response)}
        url = response.url.partition("?")[0] + "?link"
        yield Request(url, self.in_memory(self.link))

    async def link(self, response: Response) -> Any:
        del response
        Path(f"link{os.getpid()}").touch()
        await file("answer")
        yield {"page": "link"}


class KeptBefore(Kept):
    """One page in each process."""

    async def start(self) -> Any:
        yield Request(self.start_urls[0] + f"?{self.settings['PAGE']}")


class KeptByStart(All):
    """``start()`` and page 1 have the same request in memory, which has a link.

    With ``CLOSES``, both are in progress when the crawl is closed in the link.
    """

    name = "kept_by_start"

    async def start(self) -> Any:
        self.first, self.second, self.over = (asyncio.Event() for _ in range(3))
        self.crawler.signals.connect(self.second.set, signals.request_dropped)
        yield self.kept()
        yield Request(self.page(1))

    def page(self, number: int) -> str:
        return f"{self.start_urls[0]}?{number}"

    def kept(self) -> Request:
        return Request(self.page(2), self.in_memory(self.parse_kept))

    async def parse(self, response: Response) -> Any:
        if self.settings["CLOSES"]:
            await self.first.wait()
        yield self.kept()
        yield {"page": self.number(response)}

    async def parse_kept(self, response: Response) -> Any:
        if self.settings["CLOSES"] and not self.first.is_set():
            self.first.set()
            await self.second.wait()
        yield Request(self.page(3), self.in_memory(self.link))
        if self.second.is_set():
            self.over.set()
        self.second.set()
        yield {"page": self.number(response)}

    async def link(self, response: Response) -> Any:
        if self.settings["CLOSES"]:
            await self.over.wait()
            raise CloseSpider
        yield {"page": self.number(response)}


class Real(Spider):
    """All pages of a real site, as if they were on many hosts.

    It begins when there is a file at ``GO``.
    """

    name = "real"
    handle_httpstatus_list = [404]

    async def start(self) -> Any:
        go = Path(self.settings["GO"])
        while not go.exists():
            await pause(0.05)
        yield self.request(self.settings["START"])

    def request(self, url: str) -> Request:
        return Request(
            url, meta={"download_slot": str(crc32(url.rstrip("/").encode()) % 128)}
        )

    def parse(self, response: Response) -> Any:
        from bloomdupe import new_links
        from crawler.links import extract_links

        yield {"page": response.url}
        if isinstance(response, scrapy.http.HtmlResponse) and response.status == 200:
            for url in new_links(self, extract_links(response)):
                if url.startswith(self.settings["START"].rpartition("/")[0]):
                    yield self.request(url)
