"""A spider that follows a program: see ``tests/crash/programs.py``."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from common import SITE, download, once, path_of
from itemadapter import ItemAdapter
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.exceptions import CloseSpider, DontCloseSpider, DropItem
from scrapy.http import Response
from scrapy.settings import BaseSettings
from support.components import Listens
from support.counters import PerRun
from support.site import on_host
from support.stops import durable, pause, stop_at, wanted
from typing_extensions import Self

CHECKPOINT = 0.03
"""Seconds after which there has usually been a checkpoint."""
LIMITED_RUNS = 3
"""Runs that a limit closes: with requests in memory, it could be each run."""
WAITING = {"inline", "shuffled"}
"""Steps that are done by a method of that name."""


@dataclass
class Failed:
    """An item of a page that has failed: it may have a feed of its own."""

    page: str
    part: str


class Generated(Listens):
    """Follows the program in the setting ``PROGRAM``."""

    name = "generated"
    begun = PerRun[set[str]](set())
    """Bodies that have yielded something in this run."""
    closing = PerRun[set[str]](set())
    """Bodies that close the spider at their end."""

    @classmethod
    def update_settings(cls, settings: BaseSettings) -> None:
        super().update_settings(settings)
        limits = json.loads(settings["PROGRAM"]).get("limits", {})
        if settings["ADDONS"] and run_number() < LIMITED_RUNS:
            settings.setdict(limits, priority="spider")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.program = json.loads(crawler.settings["PROGRAM"])
        spider.stock = not crawler.settings["ADDONS"]
        spider.rng = random.Random(run_number())
        spider.batches = [[step] for step in spider.program["bodies"].get("idle", [])]
        return spider

    async def start(self) -> AsyncIterator[Any]:
        async for output in self.work("start", None):
            yield output

    def spider_idle(self) -> None:
        if self.batches:
            engine: Any = self.crawler.engine
            for request in self.outputs("idle", self.batches.pop(0), None):
                engine.crawl(request)
            raise DontCloseSpider

    # Callbacks

    async def parse(self, response: Response, **_: Any) -> AsyncIterator[Any]:
        async for output in self.work(self.body_of(response.request), response):
            yield output

    def parse_plainly(self, response: Response, **_: Any) -> Any:
        """A generator, if nothing in its body waits."""
        name = self.body_of(response.request)
        steps = self.steps_of(name, response)
        if any(step[0] in {"pause", *WAITING} for step in steps):
            return self.parse(response)
        return self.plainly(name, steps, response)

    def plainly(self, name: str, steps: list[Any], response: Any) -> Iterator[Any]:
        yield from self.outputs(name, steps, response)
        self.end(name)

    def parse_list(self, response: Response, **_: Any) -> Any:
        """A coroutine that returns a list, if it does not raise before."""
        steps = self.steps_of(self.body_of(response.request), response)
        outputs = self.parse(response)
        return outputs if ["raise"] in steps else listed(outputs)

    def failed(self, failure: Any) -> Iterator[Any]:
        name = f"{self.body_of(failure.request)}!"
        yield from self.plainly(name, self.steps_of(name, None), failure.request)

    def body_of(self, request: Any) -> str:
        """Return the name of the body that a request is for: its page's, or another."""
        name: str = (
            request.cb_kwargs.get("body")
            or request.meta.get("body")
            or path_of(request.url).strip("/")
        )
        return name

    # Bodies

    def steps_of(self, name: str, response: Any) -> list[Any]:
        """Return the steps of a body, or that its page is to come again."""
        if getattr(response, "text", "") == "again":
            return [["again"]]
        steps: list[Any] = self.program["bodies"].get(name, [])
        return steps

    async def work(self, name: str, response: Any) -> AsyncIterator[Any]:
        """Follow a body."""
        for number, step in enumerate(self.steps_of(name, response)):
            point = f"{name} {number}"
            stop_at(point)
            if step[0] == "pause":
                await self.pause(f"{name} {number + 1}")
            elif step[0] in WAITING:
                doing = getattr(self, step[0])
                async for output in doing(name, step[1], response, point):
                    yield output
            else:
                for output in self.outputs(name, [step], response):
                    yield output
        self.end(name)

    def end(self, name: str) -> None:
        """Close the spider at the end of a body that had yielded something before.

        A body that has yielded nothing closes it at once, and comes again. Any other is
        done with what it has yielded, so it must have yielded all.
        """
        if name in self.closing and not self.stock and once("closed"):
            raise CloseSpider("as the program says, at the end")

    async def inline(
        self, name: str, page: str, response: Any, _: str
    ) -> AsyncIterator[Any]:
        found = await download(self.crawler, Request(self.url(page)))
        yield self.item(name, f"inline {found.text}", response)

    async def shuffled(
        self, name: str, steps: list[Any], response: Any, point: str
    ) -> AsyncIterator[Any]:
        """Take steps in another order in each run, with pauses between them."""
        for nth, step in enumerate(self.rng.sample(steps, len(steps))):
            await self.pause(f"{point} {nth}")
            stop_at(f"{point} {nth}")
            for output in self.outputs(name, [step], response):
                yield output

    async def pause(self, point: str) -> None:
        """Wait for a checkpoint, for certain if the run is to be stopped next."""
        await (durable(self) if wanted(point) else pause(CHECKPOINT))

    def outputs(self, name: str, steps: list[Any], response: Any) -> Iterator[Any]:
        """Yield the outputs of steps that do not wait."""
        for kind, *words in steps:
            if kind == "close":
                if name in self.begun:
                    self.closing.add(name)
                elif not self.stock and once("closed"):
                    raise CloseSpider("as the program says")
                continue
            self.begun.add(name)
            if kind == "item":
                yield self.item(name, *words, response)
            elif kind == "files":
                files = [self.url(page) for page in words[0]]
                yield {**self.item(name, "files", response), "file_urls": files}
            elif kind == "ask":
                yield from self.requests(*words, response)
            elif kind == "again":
                yield get_retry_request(response.request, spider=self, reason=kind)
            elif kind == "raise":
                raise ValueError("as the program says")

    def item(self, name: str, part: str, response: Any) -> Any:
        url = "start" if response is None else path_of(response.url)
        text = getattr(response, "text", "")
        kind = Failed if name.endswith("!") else dict
        return kind(page=url, part=f"{name}: {part} {text}")

    # Requests

    def requests(
        self, body: str, options: dict[str, Any], response: Any
    ) -> Iterator[Request]:
        """Yield a request for a body; see ``programs.py`` for the options."""
        request = self.request(body, options, response)
        if options.get("crawl"):
            engine: Any = self.crawler.engine
            engine.crawl(request)
            return
        yield request
        # Stock Scrapy cannot do it with the same object.
        if options.get("twice"):
            yield request.copy() if self.stock else request

    def request(self, body: str, options: dict[str, Any], response: Any) -> Request:
        page = options.get("page", body)
        given: dict[str, Any] = {
            "meta": {**options.get("meta", {})},
            "cb_kwargs": {},
            "dont_filter": "page" in options,
        }
        if "page" in options:  # it carries the name of its body
            given["meta" if options["by"] == "meta" else "cb_kwargs"]["body"] = body
        return Request(
            self.url(page),
            self.callback(options.get("callback", "parse")),
            errback=self.failed,
            priority=options.get("priority", 0),
            **given,
        )

    def callback(self, kind: str) -> Callable[..., Any]:
        if kind == "lambda":
            return lambda r, **_: self.parse(r)
        if kind == "partial":
            return partial(self.parse)
        if kind == "closure":
            crawler = self.crawler

            def closure(r: Response, **_: Any) -> AsyncIterator[Any]:
                assert crawler.spider is self
                return self.parse(r)

            return closure
        return getattr(self, kind)  # type: ignore[no-any-return]

    def url(self, page: str) -> str:
        """Return the URL of a page, some of which are on another host."""
        url, number = f"{SITE}/{page}", self.program.get("hosts", {}).get(page)
        return url if number is None else on_host(url, number)


async def listed(outputs: AsyncIterator[Any]) -> list[Any]:
    return [output async for output in outputs]


def run_number() -> int:
    """Return the number of this run of the command, from 1."""
    return len(list(Path("..").glob("run*")))


def chance(item: Any) -> int:
    """Return a number from 0 to 3 that depends on an item, but not on its files."""
    texts = [one for one in ItemAdapter(item).values() if isinstance(one, str)]
    return zlib.crc32(" ".join(texts).encode()) % 4


class Wait:
    """A pipeline that waits."""

    async def process_item(self, item: Any, *_: Any) -> Any:
        await pause(chance(item) * CHECKPOINT / 3)
        return item


class Drop:
    """A pipeline that drops some items."""

    error: type[Exception] = DropItem

    def process_item(self, item: Any, *_: Any) -> Any:
        if not chance(item):
            raise self.error("as the program says")
        return item


class Fail(Drop):
    """A pipeline that raises for some items."""

    error = ValueError
