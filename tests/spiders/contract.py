"""A spider that works on the requests itself, in the place of Scrapy's engine.

So a test of the contract of the engines can end requests in any order, break off their
processing, and kill the process between any two outputs.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from itertools import cycle
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from support.engine_model import HOSTS, Ask, Page, Program, Run, item_of
from typing_extensions import Self

from bloomdupe.crawl.ending import ended
from bloomdupe.inside_scrapy.engine import stop_crawl
from bloomdupe.inside_scrapy.processing import CURRENT

AT_ONCE = 5


class BreakingOffError(Exception):
    """The processing of a request breaks off."""


class CutShortError(Exception):
    """The callback ends as by ``CloseSpider``."""


class StoppedError(Exception):
    """The run ends while requests are in flight."""


def unstorable(_: Response) -> None:
    """Be no method of the spider, so that a request with it cannot be stored."""


def url_of(page: int, mirror: int = 0) -> str:
    return f"http://host{(page + mirror) % HOSTS}.example/{page}"


class Drives(Spider):
    """Carries out the program in ``PROGRAM``, in a run as ``RUN`` describes it."""

    name = "drives"

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **options: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **options)
        crawler.signals.connect(spider.pause_engine, signals.spider_opened)
        return spider

    def pause_engine(self) -> None:
        """Let Scrapy's engine take no request, from its first turn on."""
        engine: Any = self.crawler.engine
        engine.pause()

    async def start(self) -> AsyncIterator[Any]:
        self.program = Program.loaded(self.settings["PROGRAM"])
        self.run = Run(*json.loads(self.settings["RUN"]))
        engine: Any = self.crawler.engine
        self.scheduler = engine._slot.scheduler
        self.session = self.scheduler._session
        for start in self.program.starts:
            yield self.asked(start)
        try:
            await self.drive()
        except StoppedError:
            stop_crawl(self.crawler, "stopped")
        else:
            stop_crawl(
                self.crawler, ended(self.session.ending.status, "finished").reason
            )

    async def drive(self) -> None:
        self.choices = cycle(self.run.order or [0])
        self.waits = cycle(self.run.durable or [False])
        self.events, self.steps = dict(self.run.events), 0
        self.failures = [*self.run.failures]
        self.woken = asyncio.Event()
        self.session.access.wake = self.woken.set
        at_work: list[Request] = []
        while True:
            request = await self.handed_out(wait=not at_work)
            if request is not None:
                at_work.append(request)
            elif not at_work:
                return
            if request is None or len(at_work) == AT_ONCE:
                await self.work_on(self.chosen(at_work))

    def chosen(self, several: list[Any]) -> Any:
        """Take an element out."""
        return several.pop(next(self.choices) % len(several))

    async def handed_out(self, *, wait: bool) -> Request | None:
        scheduler = self.scheduler
        while (request := scheduler.next_request()) is None:
            if not (wait and scheduler.has_pending_requests()):
                return None
            await self.woken.wait()
            self.woken.clear()
        return request  # type: ignore[no-any-return]

    async def step(self) -> None:
        """Go on to the next step, unless something comes before it."""
        if next(self.waits):
            self.session.engine.committing.commit()
        self.steps += 1
        event = self.events.get(self.steps)
        if event == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        errors = {"break": BreakingOffError, "cut": CutShortError, "stop": StoppedError}
        if event is not None:
            raise errors[event]

    async def work_on(self, request: Request) -> None:
        in_flight = self.session.registry.of(request)
        page = self.program.pages[number_of(request)]
        try:
            await self.process(request, page, in_flight)
        except BreakingOffError as error:
            in_flight.aborted(error)
            in_flight.ended(complete=False)
        except CutShortError as error:
            in_flight.closed_spider(error, None)
            in_flight.ended(complete=True)
            raise StoppedError from None
        else:
            in_flight.ended(complete=True)

    async def process(self, request: Request, page: Page, in_flight: Any) -> None:
        retried_by = self.retried_by(request, page)
        if retried_by == "downloader":
            await self.answer(failed(request), in_flight)
        elif (
            page.leads_to is not None
            and not retried_by
            and not tries_of(request) < page.fails
        ):
            await self.answer(request.replace(url=url_of(page.leads_to)), in_flight)
        else:
            response = Response(request.url, request=request)
            in_flight.answered(response)
            items, requests = self.output_of(request, page)
            if retried_by:
                items, requests = [], [failed(request)]
            if retried_by == "mirror":
                mirror = url_of(number_of(request), tries_of(request) + 1)
                requests = [requests[0].replace(url=mirror)]
            await self.put_out(response, items, requests, in_flight)

    def retried_by(self, request: Request, page: Page) -> str:
        """Return who retries a request, in this run and in the place of all output.

        The retry has ``dont_filter``, and so would its redirect.
        """
        if page.leads_to is not None and not request.dont_filter:
            return ""
        return self.failures.pop(0) if self.failures else ""

    async def answer(self, answer: Request, in_flight: Any) -> None:
        """Let the downloader answer with a request."""
        try:
            await self.step()
        except CutShortError:  # there is no callback
            raise StoppedError from None
        in_flight.answered(answer)
        self.session.processing.answering = in_flight
        self.enqueue(answer, in_flight)
        self.session.processing.answering = None

    def output_of(
        self, request: Request, page: Page
    ) -> tuple[list[str], list[Request]]:
        """Return the items and the requests that a page yields."""
        number, tries = number_of(request), tries_of(request)
        texts = ["", *(each for each in page.outputs if isinstance(each, str))]
        items = [item_of(number, tries, text) for text in texts]
        requests = [self.asked(each) for each in page.outputs if type(each) is Ask]
        return items, requests + [retry_of(request)] * (tries < page.fails)

    async def put_out(
        self,
        response: Response,
        items: list[str],
        requests: list[Request],
        in_flight: Any,
    ) -> None:
        """Put out requests in any order, and items in their order."""
        left: list[Request | None] = [*[None] * len(items), *requests]
        texts = iter(items)
        cut = None
        while left:
            request = self.chosen(left)
            try:
                await self.step()
            except CutShortError as error:
                if not in_flight.begun:
                    raise
                cut = error  # such a page is done, so it yields the rest before
            if request is not None:
                self.enqueue(request, in_flight)
                continue
            text = next(texts)
            if in_flight.takes_item():
                self.put_item(text, response, in_flight)
        if cut is not None:
            raise cut
        await self.step()

    def asked(self, ask: Ask) -> Request:
        shared = {"values": self.shared} if ask.memory == "shared" else {}
        return Request(
            url_of(ask.page),
            unstorable if ask.memory else self.parse,
            cb_kwargs=shared,
            dont_filter=ask.again,
            priority=ask.priority,
        )

    shared: list[str] = []

    def enqueue(self, request: Request, in_flight: Any) -> None:
        CURRENT.set(in_flight)
        self.scheduler.enqueue_request(request)

    def put_item(self, text: str, response: Response, in_flight: Any) -> None:
        CURRENT.set(in_flight)
        self.crawler.signals.send_catch_log(
            signals.item_scraped, item={"item": text}, response=response, spider=self
        )


def number_of(request: Request) -> int:
    return int(urlsplit(request.url).path[1:])


def tries_of(request: Request) -> int:
    """Return how many tries with output precede it."""
    meta = request.meta
    return int(meta.get("retry_times", 0)) - int(meta.get("failures", 0))


def retry_of(request: Request, **meta: int) -> Request:
    times = request.meta.get("retry_times", 0) + 1
    meta = {**request.meta, "retry_times": times, **meta}
    return request.replace(meta=meta, dont_filter=True)


def failed(request: Request) -> Request:
    """Return the retry of a try without output."""
    return retry_of(request, failures=request.meta.get("failures", 0) + 1)


def overlaps() -> None:
    """Do the next request before a request ends, as if their callbacks overlapped."""
    process = Drives.process

    async def overlapping(
        self: Drives, request: Request, page: Page, in_flight: Any
    ) -> None:
        await process(self, request, page, in_flight)
        following = await self.handed_out(wait=False)
        if following is not None:
            await self.work_on(following)

    Drives.process = overlapping  # type: ignore[method-assign]
