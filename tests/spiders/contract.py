"""A spider that works on the requests itself, in the place of Scrapy's engine.

So a test of the contract of the engines can end requests in any order, break off their
processing, and kill the process between any two outputs.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider, signals
from scrapy.http import Response

from bloomdupe.inside_scrapy import processing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGES = 40
HOSTS = 7
AT_ONCE = 5
DURABLE = 0.5
"""Share of the outputs before which everything is made durable."""


def outputs_of(page: int) -> list[tuple[str, int]]:
    """Return the requests that a page yields, with equal requests among them.

    Links are to pages; duplicates of a request ``again`` are not dropped.
    """
    links = [2 * page + 1, 2 * page + 2, page // 2, page * 7 % PAGES]
    again = [("again", page)] * (1 + page % 2)
    return [("link", link) for link in links if link < PAGES] + again


def expected() -> Counter[str]:
    """Return the items of a crawl: the model of the contract."""
    found, todo = {0}, [0]
    items = Counter[str]()
    while todo:
        page = todo.pop()
        items[f"link {page}"] += 1
        for kind, number in outputs_of(page):
            if kind == "again":
                items[f"again {number}"] += 1
            elif number not in found:
                found.add(number)
                todo.append(number)
    return items


class Durable:
    """Makes everything durable that the engine was told."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.told = self.said = 0
        if not hasattr(engine, "commit"):
            self.loop = asyncio.get_running_loop()
            self.changed = asyncio.Event()
            for name in ("offer", "settle"):
                self.watch(name)

    def watch(self, name: str) -> None:
        """Count the calls of the engine's thread, and those that are carried out."""
        worker, frontier = self.engine._worker, self.engine._frontier
        tell, say = getattr(worker, name), getattr(frontier, name)

        def told(one: Any) -> None:
            self.told += 1
            tell(one)

        def said(some: Any) -> Any:
            each = list(some)
            answer = say(each)
            self.loop.call_soon_threadsafe(self.count, len(each))
            return answer

        setattr(worker, name, told)
        setattr(frontier, name, said)

    def count(self, some: int) -> None:
        self.said += some
        self.changed.set()

    async def all(self) -> None:
        if hasattr(self.engine, "commit"):
            self.engine.commit()
            return
        while self.said < self.told:
            self.changed.clear()
            await self.changed.wait()


class Drives(Spider):
    """Works on a tree of pages in a random order.

    ``KILL_AT`` is the number of the output before which the process is killed. Of each
    ``BROKEN`` pages, the processing of one breaks off.
    """

    name = "drives"

    async def start(self) -> AsyncIterator[Any]:
        engine: Any = self.crawler.engine
        engine.pause()  # it must not take any request
        await self.drive(engine._slot.scheduler)
        engine.unpause()
        for nothing in list[Any]():
            yield nothing

    async def drive(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.chance = random.Random(self.settings.getint("SEED"))
        self.until_kill = self.settings.getint("KILL_AT")
        self.durable = Durable(scheduler._session.engine)
        self.woken = asyncio.Event()
        scheduler._session.access.wake = self.woken.set
        self.offer(("link", 0), None)
        at_work: list[Request] = []
        while True:
            request = await self.handed_out(wait=not at_work)
            if request is not None:
                at_work.append(request)
            elif not at_work:
                return
            if request is None or len(at_work) == AT_ONCE:
                self.chance.shuffle(at_work)
                await self.work_on(at_work.pop())

    async def handed_out(self, *, wait: bool) -> Request | None:
        scheduler = self.scheduler
        while (request := scheduler.next_request()) is None:
            if not (wait and scheduler.has_pending_requests()):
                return None
            await self.woken.wait()
            self.woken.clear()
        return request  # type: ignore[no-any-return]

    async def work_on(self, request: Request) -> None:
        lease = self.scheduler._session.leases.of(request)
        kind, page = request.meta["kind"], request.meta["page"]
        outputs: list[Any] = ["item"]
        if kind == "link":
            outputs += outputs_of(page)
        self.chance.shuffle(outputs)
        broken = self.settings.getint("BROKEN")
        breaks = bool(broken) and page % broken == 1
        for output in outputs[: -1 if breaks else None]:
            if self.chance.random() < DURABLE:
                await self.durable.all()
            self.until_kill -= 1
            if not self.until_kill:
                os.kill(os.getpid(), signal.SIGKILL)
            if output == "item":
                self.put_out(f"{kind} {page}", request, lease)
            else:
                self.offer(output, lease)
        if breaks:
            lease.broke_off(ZeroDivisionError())
        lease.ended(whole=not breaks)

    def offer(self, output: tuple[str, int], lease: Any) -> None:
        kind, page = output
        url = f"http://host{page % HOSTS}.example/{page}?{kind}"
        meta = {"kind": kind, "page": page}
        request = Request(url, self.parse, meta=meta, dont_filter=kind == "again")
        self.as_work_of(lease)
        self.scheduler.enqueue_request(request)

    def put_out(self, text: str, request: Request, lease: Any) -> None:
        self.as_work_of(lease)
        response = Response(request.url, request=request)
        self.crawler.signals.send_catch_log(
            signals.item_scraped, item={"item": text}, response=response, spider=self
        )

    def as_work_of(self, lease: Any) -> None:
        processing._CURRENT.set(lease)
