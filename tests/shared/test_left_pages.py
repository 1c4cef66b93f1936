"""Pages of shared crawls with requests that cannot be stored, and pages that are left.

The spiders say in files how far they are, and wait for files: no test waits for time.
"""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from crew import DEADLINE, NAME, Crew
from support.page_server import page_server
from support.redis_server import RedisServer

from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crew import Worker

pytestmark = pytest.mark.slow

SPIDERS = """
import asyncio
import os
from pathlib import Path

import scrapy
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter

HERE = Path(__file__).parent


async def file(name):
    while not (HERE / name).exists():
        await asyncio.sleep(0.02)


class Fingerprinter(RequestFingerprinter):
    def fingerprint(self, request):
        if request.url.endswith("bad") and not (HERE / "mended").exists():
            raise KeyError("no id")
        return super().fingerprint(request)


class Slow:
    # A pipeline that is not through when the page breaks off.
    async def process_item(self, item):
        await asyncio.sleep(0)
        return item


class Pages(scrapy.Spider):
    # Twenty pages on hosts of their own.
    name = "pages"

    async def start(self):
        (HERE / f"ready{os.getpid()}").touch()
        await file("go")
        for n in range(20):
            yield Request(
                self.start_urls[0] + f"?{n}", meta={"download_slot": f"host{n}"}
            )

    def number(self, response):
        return int(response.url.rpartition("?")[2])


class Parked(Pages):
    # One host; requests that cannot be stored are at hand all the time.
    name = "parked"
    custom_settings = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}

    async def start(self):
        yield Request(self.start_urls[0])

    def parse(self, response):
        for n in range(60):
            yield Request(f"{response.url}?{n}", self.leaf)
        for n in range(60, 100):
            url = f"{response.url}?{n}"
            yield Request(url, lambda response: self.leaf(response), priority=-1)

    def leaf(self, response):
        yield {"page": self.number(response)}


class Broken(Pages):
    # Something other than the callback breaks off, on six pages.
    name = "broken"
    custom_settings = {
        "BLOOMDUPE_EARLY_DROP": False,
        "ITEM_PIPELINES": {Slow: 1},
        "REQUEST_FINGERPRINTER_CLASS": Fingerprinter,
    }

    def parse(self, response):
        yield {"page": self.number(response)}
        yield {"page": self.number(response)}
        if self.number(response) < 6:
            yield Request(response.url + "bad", self.done)
            yield {"after": self.number(response)}

    def done(self, response):
        yield {"bad": response.url[-4:]}


class Kept(Pages):
    # Each page leads to the same link, which cannot be stored.
    name = "kept"

    def parse(self, response):
        yield {"page": self.number(response)}
        url = response.url.partition("?")[0] + "?link"
        yield Request(url, lambda response: self.link(response))

    async def link(self, response):
        (HERE / f"link{os.getpid()}").touch()
        await file("answer")
        yield {"page": "link"}


class KeptBefore(Kept):
    # One page in each process.
    async def start(self):
        yield Request(self.start_urls[0] + f"?{self.settings['PAGE']}")
"""
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def crew(tmp_path: Path, redis: RedisServer) -> Iterator[Crew]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    paths = [f"/0?{n}" for n in range(100)] + ["/0", "/0?link"]
    paths += [f"/0?{n}bad" for n in range(6)]
    with page_server(dict.fromkeys(paths, "page")) as (base, requested):
        crew = Crew(tmp_path, base, redis, requested, FEED, "BLOOMDUPE_REDIS_LEASE=2")
        try:
            yield crew
        finally:
            crew.dismiss()


def begin(crew: Crew, folder: Path, redis: RedisServer, spider: str) -> list[Worker]:
    """Start two workers; they go on when each has its share."""
    workers = [crew.hire(spider) for _ in range(2)]
    crew.wait(lambda: len([*folder.glob("ready*")]) == 2)

    def shared_out() -> bool:
        with SharedFrontier.open(redis.url(NAME)) as frontier:
            return len(Counter(counts.worker for counts in frontier.counts())) == 2

    crew.wait(shared_out)
    (folder / "go").touch()
    return workers


def done_in(redis: RedisServer) -> int:
    with SharedFrontier.open(redis.url(NAME)) as frontier:
        return sum(counts.done for counts in frontier.counts())


def lines_of(redis: RedisServer) -> Counter[str]:
    with SharedFrontier.open(redis.url(NAME)) as frontier:
        return Counter(output.line.decode() for output in frontier.outputs())


def line(key: str, value: str) -> str:
    return f'0 {{"{key}": {value}}}\n'


def test_a_slot_goes_on_though_others_of_it_are_at_hand(crew: Crew) -> None:
    crew.hire("Parked").end()
    assert crew.items() == Counter(line("page", str(n)) for n in range(100))


def test_pages_that_break_off_keep_no_worker(
    crew: Crew, tmp_path: Path, redis: RedisServer
) -> None:
    for worker in begin(crew, tmp_path, redis, "Broken"):
        assert worker.process.wait(DEADLINE) == 1, worker.log
        assert worker.stats["finish_reason"] == "incomplete"
        assert "pages were left" in worker.log
    # Each item once, though a page may have been tried by both.
    pages = Counter(line("page", str(n)) for n in range(20))
    assert lines_of(redis) == pages + pages
    (tmp_path / "mended").touch()
    crew.hire("Broken").end()
    more = [line("bad", f'"{n}bad"') for n in range(6)]
    more += [line("after", str(n)) for n in range(6)]
    assert crew.items() == pages + pages + Counter(more)


def test_a_link_in_memory_is_not_lost_with_two_leases(
    crew: Crew, tmp_path: Path, redis: RedisServer
) -> None:
    """Each of two workers loses a page, and has the link of the other one's, too."""
    one, two = begin(crew, tmp_path, redis, "Kept")
    crew.wait(lambda: len([*tmp_path.glob("link*")]) == 2)
    # All pages but two rely on the two that carry the link.
    crew.wait(lambda: done_in(redis) == 18)
    one.process.send_signal(signal.SIGSTOP)
    crew.wait(lambda: done_in(redis) == 19)
    asked = len(crew.requested)
    two.process.send_signal(signal.SIGSTOP)
    one.process.send_signal(signal.SIGCONT)
    crew.wait(lambda: len(crew.requested) > asked)
    (tmp_path / "answer").touch()
    two.process.send_signal(signal.SIGCONT)
    for worker in (one, two):
        worker.end()
    items = crew.items()
    assert items[line("page", '"link"')] in {1, 2}
    assert items.total() == 20 + items[line("page", '"link"')]


def test_a_link_in_memory_that_is_done_counts_as_seen(
    crew: Crew, tmp_path: Path
) -> None:
    (tmp_path / "answer").touch()
    for page in (1, 2):
        crew.hire("KeptBefore", f"PAGE={page}").end()
    assert crew.requested == ["/0?1", "/0?link", "/0?2"]
    assert crew.items().total() == 3


def test_a_refusal_that_passes_is_waited_for(crew: Crew, redis: RedisServer) -> None:
    worker = crew.hire("Parked")
    crew.wait(lambda: len(crew.requested) > 5)
    with redis.client() as client:
        client.config_set("min-replicas-to-write", 1)
        crew.wait(lambda: "NOREPLICAS" in worker.log)
        client.config_set("min-replicas-to-write", 0)
    worker.end()
    assert worker.log.count("NOREPLICAS") == 1
    assert crew.items().total() == 100
