"""Pages with outputs that must be told apart when a run repeats them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import Response, TextResponse
from support.counters import PerRun
from support.stops import moment, pause
from typing_extensions import Self


class OnceMore(Spider):
    """A page asks for itself once more, and both ask for the same other page.

    The order of the two requests differs between the runs, and with ``WAITS`` the page
    goes on only when its second time is over.
    """

    name = "once_more"
    over, tokens = PerRun(0), PerRun(0)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        if response.meta["depth"]:
            yield self.ask(response)
            self.over += 1
            return
        if self.settings.getint("ORDER") == 1:
            yield self.ask(response)
            await moment(self, "asked", when=lambda: self.tokens == 1, alone=True)
            yield self.again(response)
            return
        yield self.again(response)
        while self.settings.getbool("WAITS") and not self.over:
            await pause(0.01)
        yield self.ask(response)

    def again(self, response: Response) -> Request:
        assert response.request is not None
        return response.request.replace(dont_filter=True)

    def ask(self, response: Response) -> Request:
        return response.follow("/a", self.token, dont_filter=True)

    def token(self, _: Response) -> Iterator[Any]:
        yield {"part": "token"}
        self.tokens += 1


class Refused(Spider):
    """A page with a child is refused when it comes again."""

    name = "refused"
    children = PerRun(0)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        assert isinstance(response, TextResponse)
        assert response.request is not None
        if response.text == "captcha":
            if self.settings["ONCE_MORE"]:
                yield response.request.replace(dont_filter=True)
            else:
                yield get_retry_request(response.request, spider=self, reason="captcha")
            return
        yield response.follow("/a", self.child, dont_filter=True)
        await moment(self, "child is done", when=lambda: self.children == 1, alone=True)
        yield {"part": "page"}

    def child(self, _: Response) -> Iterator[Any]:
        yield {"part": "child"}
        self.children += 1


class Beside(Spider):
    """A page has a child beside its retry; ``FIRST`` says which comes first."""

    name = "beside"

    def child(self, _: Response) -> Iterator[Any]:
        yield {"part": "child"}

    def parse(self, response: Response) -> Iterator[Any]:
        assert response.request is not None
        child = response.follow("/a", self.child, dont_filter=True)
        retry = get_retry_request(response.request, spider=self, reason="half")
        if "retry_times" in response.meta:
            yield child
        elif self.settings["FIRST"] == "child":
            yield from (child, retry)
        else:
            yield from (retry, child)


class WaitsForRetry(Spider):
    """A callback asks for its page again, and waits until that is done."""

    name = "waits_for_retry"
    over = PerRun(False)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        assert response.request is not None
        if "retry_times" not in response.meta:
            yield get_retry_request(response.request, spider=self, reason="half")
            while not self.over:
                await pause(0.01)
        yield response.follow("/a", self.child, dont_filter=True)
        yield {"part": "page"}
        self.over = True

    def child(self, _: Response) -> Iterator[Any]:
        yield {"part": "child"}


class Carried(Refused):
    """A page that cannot be stored has a child; ``BY`` says which page leads to it."""

    name = "carried"

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        assert isinstance(response, TextResponse)
        if response.url.endswith(self.settings["BY"]):
            yield self.link_of(response)
        else:
            yield response.follow(self.settings["BY"])

    def link_of(self, response: Response) -> Request:
        def carried(found: Response) -> AsyncIterator[Any]:
            assert response.request is not None
            return self.with_child(found)

        return response.follow("/elsewhere", carried)

    def with_child(self, response: Response) -> AsyncIterator[Any]:
        return super().parse(response)


class WaitsInMemory(WaitsForRetry):
    """The callback of a request that cannot be stored waits for the retry."""

    name = "waits_in_memory"

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        assert response.request is not None
        if "retry_times" in response.meta:
            self.over = True
            return

        async def waiting(_: Response) -> AsyncIterator[Any]:
            while not self.over:
                await pause(0.01)
            yield {"part": "page"}

        yield get_retry_request(response.request, spider=self, reason="half")
        yield response.follow("/a", waiting)


class Held:
    """A pipeline in which the item of a captcha is stopped."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Held:
        return cls(crawler)

    async def process_item(self, item: Any, *_: Any) -> Any:
        assert self.crawler.spider is not None
        if item["part"] == "captcha":
            await moment(self.crawler.spider, "captcha is held")
        return item


class Captcha(Refused):
    """A captcha has an item, and its page is asked for once more."""

    name = "captcha"
    custom_settings = {"ITEM_PIPELINES": {"spiders.names.Held": 100}}

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        assert isinstance(response, TextResponse)
        assert response.request is not None
        if response.text != "captcha":
            async for output in super().parse(response):
                yield output
            return
        yield response.request.replace(dont_filter=True)
        yield {"part": "captcha"}


class ReadsQueue(Spider):
    """``start()`` yields an item for each message; each run reads its own."""

    name = "reads_queue"

    async def start(self) -> AsyncIterator[Any]:
        first = self.settings.getint("FIRST_MESSAGE")
        for number in (*range(first, first + 3), first):
            yield {"part": str(number)}
        await moment(self, "read")


class AsksEarly(Spider):
    """The receiver of a signal asks for a child, while the data of its page arrive."""

    name = "asks_early"
    over = PerRun(False)

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **options: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **options)
        crawler.signals.connect(spider.came, signals.headers_received)
        return spider

    def came(self, request: Request) -> None:
        if not request.cb_kwargs:
            url = request.url + "a"
            child = Request(url, self.child, cb_kwargs={"n": 1}, dont_filter=True)
            assert self.crawler.engine is not None
            self.crawler.engine.crawl(child)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        await moment(self, "child is done", when=lambda: self.over, alone=True)
        yield {"part": "page"}

    def child(self, _: Response, n: int) -> Iterator[Any]:
        yield {"part": "child"}
        self.over = True
