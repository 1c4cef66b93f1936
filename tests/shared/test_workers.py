"""Several workers on one crawl: real processes, a real Redis, beside stock Scrapy."""

from __future__ import annotations

import random
import re
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from crew import DEADLINE, Crew, graph
from support.page_server import page_server
from support.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import scrapy
from scrapy import Request
from scrapy.exceptions import CloseSpider


class All(scrapy.Spider):
    # Pages of one site, as if they were on seven hosts.
    name = "all"

    def number(self, response):
        return int(response.url.rpartition("/")[2])

    def parse(self, response):
        yield {"page": self.number(response)}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, meta={"download_slot": str(int(href[1:]) % 7)})


class OneHost(All):
    # Each page by whoever gets it, in its own time.
    name = "one_host"

    def parse(self, response):
        yield {"page": self.number(response)}
        yield from response.follow_all(response.css("a"))


class Everyday(All):
    # What everyday spiders do besides.
    name = "everyday"

    async def start(self):
        yield {"page": "start"}
        yield {"page": "start"}
        async for request in super().start():
            yield request

    def parse(self, response):
        yield from super().parse(response)
        number = self.number(response)
        if number % 5 == 0:
            for part in "ab":
                yield Request(
                    response.url + "?again", self.parse_again, dont_filter=True,
                    cb_kwargs={"part": part},
                )
        if number % 7 == 0:
            # Such a callback cannot be stored.
            yield Request(
                response.url + "?memory", lambda response: {"page": response.url[-9:]}
            )
        if number % 11 == 0:
            moved = {"part": "moved"}
            yield response.follow("/moved", self.parse_again, cb_kwargs=moved)

    def parse_again(self, response, part):
        yield {"page": f"{response.url.rpartition('/')[2]} {part}"}


class Alone(All):
    # All that there is cannot be stored, and waits for its turn.
    name = "alone"
    custom_settings = {"DOWNLOAD_DELAY": 0.3, "RANDOMIZE_DOWNLOAD_DELAY": False}

    async def start(self):
        for number in range(6):
            yield Request(
                self.start_urls[0][:-1] + str(number),
                lambda response: {"page": self.number(response)},
            )


class Other(All):
    name = "other"


class Closing(All):
    name = "closing"

    def parse(self, response):
        if self.settings.getbool("CLOSE") and self.number(response) == 9:
            raise CloseSpider("enough")
        yield from super().parse(response)


class Later(All):
    name = "all"

    def parse(self, response):
        yield response.follow("/1", meta={"bloomdupe_delay": 60})
"""
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
SIZE = 150


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    options = "--appendonly", "yes", "--appendfsync", "always"
    with RedisServer(tmp_path / "redis", *options) as server:
        yield server


@pytest.fixture
def crew(tmp_path: Path, redis: RedisServer) -> Iterator[Crew]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    pages = graph(SIZE)
    for number in range(SIZE):
        for more in ("again", "memory"):
            pages[f"/{number}?{more}"] = "more"
    pages["/moved"] = "-> /there"
    pages["/there"] = "more"
    with page_server(pages) as (base, requested):
        crew = Crew(tmp_path, base, redis, requested, FEED, "BLOOMDUPE_REDIS_LEASE=1")
        try:
            yield crew
        finally:
            crew.dismiss()


@pytest.mark.parametrize("workers", [1, 4])
def test_all_together_do_what_one_of_scrapys_does(crew: Crew, workers: int) -> None:
    expected, asked = crew.stock("Everyday")
    together = [crew.hire("Everyday") for _ in range(workers)]
    for worker in together:
        worker.end()
    assert crew.items() == expected
    # A request that cannot be stored is one worker's own, so others may make it, too.
    assert _without_memory(crew.take()) == _without_memory(asked)
    assert sum(worker.pages for worker in together) >= len(asked)


def _without_memory(visits: Counter[str]) -> Counter[str]:
    return Counter({what: n for what, n in visits.items() if "memory" not in what})


def test_a_crawl_that_has_finished_stays_finished(crew: Crew) -> None:
    crew.hire("Everyday").end()
    items = crew.items()
    crew.take()
    crew.hire("Everyday").end()
    assert crew.take() == Counter()
    assert crew.items() == items


KINDS = ["kill", "stop", "redis", "back"]


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_every_item_stands_once(
    crew: Crew, redis: RedisServer, seed: int
) -> None:
    expected, asked = crew.stock("Everyday")
    rng = random.Random(seed)
    alive = [crew.hire("Everyday") for _ in range(3)]
    for number in range(6):
        crew.wait(lambda: len(crew.requested) > 25 * number)  # noqa: B023 - at once
        victim = rng.choice(alive)
        if victim.process.poll() is not None:
            break
        what = KINDS[(seed + number) % len(KINDS)]
        if what == "kill":
            victim.kill()
            alive.remove(victim)
            alive.append(crew.hire("Everyday"))
        elif what == "stop":
            victim.process.send_signal(signal.SIGSTOP)
            time.sleep(rng.uniform(0.5, 2.0))  # the lease is one second
            victim.process.send_signal(signal.SIGCONT)
        else:
            for worker in alive:
                crew.wait(lambda: worker.works)  # noqa: B023 - at once
            before = redis.written
            time.sleep(rng.uniform(0, 0.5))
            redis.kill()
            if what == "back":
                redis.cut_back(*before)
            redis.start()
    for worker in alive:
        worker.end()
    assert crew.items() == expected
    assert crew.collected() == expected
    assert set(asked) == set(crew.take())


def test_what_is_interrupted_goes_on_at_once(crew: Crew) -> None:
    """By Ctrl-C, or by CloseSpider: others need not wait for the lease."""
    expected, _ = crew.stock("All")
    first = crew.hire("Closing", "CLOSE=1", "BLOOMDUPE_REDIS_LEASE=600")
    assert first.process.wait(DEADLINE) == 0
    assert first.stats["finish_reason"] == "enough"
    second = crew.hire("Closing", "DOWNLOAD_DELAY=0.2", "BLOOMDUPE_REDIS_LEASE=600")
    crew.take()
    crew.wait(lambda: bool(crew.requested))
    second.process.send_signal(signal.SIGINT)
    assert second.process.wait(DEADLINE) == 0
    assert second.stats["finish_reason"] == "shutdown"
    crew.hire("Closing", "BLOOMDUPE_REDIS_LEASE=600").end()
    assert crew.items() == expected


def test_one_host_is_shared_by_url(crew: Crew) -> None:
    expected, asked = crew.stock("OneHost")
    settings = (
        "BLOOMDUPE_REDIS_PARTITION_BY=url",
        "BLOOMDUPE_REDIS_LEASE=12",  # or a slow machine fetches pages again
        "DOWNLOAD_DELAY=0.1",
    )
    together = [crew.hire("OneHost", *settings) for _ in range(2)]
    for worker in together:
        worker.end()
        assert worker.pages
        assert "hold for each worker by itself" in worker.log
    assert crew.items() == expected
    assert crew.take() == asked


REFUSED = [
    ("All", "JOBDIR=job", "JOBDIR and BLOOMDUPE_REDIS_URL are both set"),
    ("All", "BLOOMDUPE_WAIT=5", "BLOOMDUPE_WAIT = '5' does not work with"),
    ("All", "BLOOMDUPE_FPP=0.01", "BLOOMDUPE_FPP: .* was made with fpp = 1e-06"),
    ("All", "BLOOMDUPE_REDIS_PARTITIONS=9", "was made with partitions = 8"),
    ("All", "BLOOMDUPE_REDIS_PARTITION_BY=url", "was made with partition_by = 'slot'"),
    ("All", "BLOOMDUPE_REDIS_PARTITION_BY=host", "expected one of slot, url"),
    ("All", "BLOOMDUPE_REDIS_REPLICAS=-1", "expected a whole number"),
    ("Other", "LOG_ENABLED=1", "was made with spider = 'all'"),
    ("All", "BLOOMDUPE_REDIS_URL=redis://localhost:1/0#a", "no Redis answers there"),
    ("All", "BLOOMDUPE_REDIS_URL=redis://localhost:1", "must end in the name of the"),
    ("All", 'FEEDS={"a.csv": {"format": "csv"}}', "the feed a.csv: .* jsonlines only"),
]


def test_a_crawl_that_cannot_be_is_refused(crew: Crew) -> None:
    crew.hire("All").end()
    items = crew.items()
    refused = [
        (crew.hire(spider, setting), words) for spider, setting, words in REFUSED
    ]
    for worker, words in refused:
        assert worker.process.wait(DEADLINE) == 1
        assert re.search(words, worker.log), worker.log
    assert crew.items() == items


def test_a_request_for_a_point_in_time_stops_the_crawl(crew: Crew) -> None:
    worker = crew.hire("Later")
    assert worker.process.wait(DEADLINE) == 1
    assert "that does not work with BLOOMDUPE_REDIS_URL" in worker.log
    assert "Traceback" not in worker.log
    crew.hire("All").end()  # the page is owed still
    assert crew.items().total() == SIZE


def test_what_redis_does_not_know_is_waited_for(crew: Crew) -> None:
    crew.hire("Alone").end()
    assert crew.items() == Counter(f'0 {{"page": {n}}}\n' for n in range(6))
