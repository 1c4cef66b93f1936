"""Runs the scenarios of test_scheduler_contract.py: ``contract_child.py FOLDER WHERE``.

Each runs under Scrapy's scheduler and under ours, in a single process: in ``memory``,
in a ``job``, or in a job that is ``resumed``. Prints, as JSON, the behaviour that a
scheduler's user can see.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerRunner
from scrapy.http import Response
from scrapy.utils.reactor import install_reactor
from twisted.internet.defer import inlineCallbacks
from twisted.internet.task import react

from bloomdupe.inside_scrapy.engine import stop_crawl

AWARE = "scrapy.pqueues.DownloaderAwarePriorityQueue"  # the default of later ones
FIFO = {
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
}
START_LIFO = {
    "SCHEDULER_START_MEMORY_QUEUE": "scrapy.squeues.LifoMemoryQueue",
    "SCHEDULER_START_DISK_QUEUE": "scrapy.squeues.PickleLifoDiskQueue",
}
START_SHARED = {
    "SCHEDULER_START_MEMORY_QUEUE": None,
    "SCHEDULER_START_DISK_QUEUE": None,
}

# A request each: number, priority, and "s" for a start request, "d" for dont_filter,
# "u" for a request that cannot be stored, "a", "b", "c" for a slot of its own.
PRIORITIES = [(1, -2), (2, 1), (3, -1), (4, 0), (5, 2), (6, 0), (7, 1), (8, -(10**6))]
STARTS = [(1, 0, "s"), (2, 0), (3, 0, "s"), (4, 1, "s"), (5, 1), (6, 0), (7, 1, "s")]
SLOTS = [(1, 0, "a"), (2, 0, "a"), (3, 0, "b"), (4, 0, "b"), (5, 0, "c"), (6, 0, "c")]
DUPLICATES = [(1, 0), (1, 0), (2, 0, "d"), (2, 0, "d"), (1, 5), (3, 0)]

SCENARIOS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "newest first": ([(n, 0) for n in range(9)], {}),
    "oldest first": ([(n, 0) for n in range(9)], FIFO),
    "priorities": (PRIORITIES, {}),
    "priorities, oldest first": (PRIORITIES, FIFO),
    "start requests": (STARTS, {}),
    "start requests, oldest first": (STARTS, FIFO),
    "start requests, newest first": (STARTS, START_LIFO),
    "start requests like others": (STARTS, START_SHARED),
    "start requests like others, oldest first": (STARTS, FIFO | START_SHARED),
    "slots": (SLOTS, {}),
    "duplicates": (DUPLICATES, {}),
    "unstorable": ([(1, 0), (2, 0, "u"), (3, 0), (4, 0, "u")], {"SCHEDULER_DEBUG": 1}),
    "nothing": ([], {}),
}


def unstorable(_: Response) -> None:
    """Be no method of the spider, so that a request with it cannot be stored."""


class Contract(Spider):
    """Schedules all at once in its first callback, and records the results."""

    name = "contract"

    def __init__(self, steps: list[Any], result: dict[str, Any]) -> None:
        super().__init__()
        self.steps = steps
        self.result = result

    async def start(self) -> AsyncIterator[Request]:
        if not self.result:
            yield Request("data:,first", self.parse_first)

    def scheduler(self) -> Any:
        """Return the scheduler of the crawl, ours or Scrapy's."""
        engine: Any = self.crawler.engine
        return engine._slot.scheduler

    def parse_first(self, _response: Response) -> Iterator[Request]:
        scheduler = self.scheduler()
        seen = self.result
        seen["empty"] = [len(scheduler), scheduler.has_pending_requests()]
        seen["accepted"] = [
            scheduler.enqueue_request(self.make(*s)) for s in self.steps
        ]
        seen["full"] = [len(scheduler), scheduler.has_pending_requests()]
        seen["order"] = []
        self.crawler.signals.connect(self.note, signals.request_reached_downloader)
        if self.settings["STOP"]:
            stop_crawl(self.crawler, "stopped")
        return iter(())

    def make(self, number: int, priority: int, kind: str = "") -> Request:
        return Request(
            f"data:,{number}",
            unstorable if kind == "u" else self.parse,
            priority=priority,
            dont_filter=kind == "d",
            meta={
                **({"is_start_request": True} if kind == "s" else {}),
                **({"download_slot": kind} if kind in "abc" else {}),
            },
        )

    def note(self, request: Request) -> None:
        self.result["order"].append(request.url.partition(",")[2])

    def parse(self, response: Response) -> None:
        pass


class Resumed(Contract):
    """Resumes the crawl of an earlier run."""

    async def start(self) -> AsyncIterator[Request]:
        self.result["left"] = len(self.scheduler())
        self.result["order"] = []
        self.crawler.signals.connect(self.note, signals.request_reached_downloader)
        for request in list[Request]():
            yield request


STATS = ("scheduler/", "dupefilter/", "finish_reason")


@inlineCallbacks
def main(_: Any, folder: str, where: str) -> Any:
    results: dict[str, Any] = {}
    for name, (steps, settings) in SCENARIOS.items():
        for which in ("scrapy", "bloomdupe"):
            result: dict[str, Any] = {}
            ours = {"ADDONS": {"bloomdupe.Addon": 500}} if which != "scrapy" else {}
            place = f"{folder}/{where}{len(results)}"
            job = {} if where == "memory" else {"JOBDIR": place}
            options = {
                "CONCURRENT_REQUESTS": 1,
                "TELNETCONSOLE_ENABLED": False,
                "REMOTE_CONTROL_ENABLED": False,
                "LOG_LEVEL": "CRITICAL",
                "SCHEDULER_PRIORITY_QUEUE": AWARE,
                "STOP": where == "resumed",
                **settings, **ours, **job,
            }  # fmt: skip
            runner = CrawlerRunner(options)
            for spider in (Contract, Resumed)[: 1 + (where == "resumed")]:
                crawler = runner.create_crawler(spider)
                yield runner.crawl(crawler, steps, result)
                stats = crawler.stats.get_stats()
                result[f"stats of {spider.__name__}"] = {
                    key: value
                    for key, value in sorted(stats.items())
                    if key.startswith(STATS)
                }
            results[f"{name}/{where}/{which}"] = result
    print(json.dumps(results))


if __name__ == "__main__":
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
    react(main, sys.argv[1:])
