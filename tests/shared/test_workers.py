"""Several workers on one crawl: real processes, a real Redis, beside stock Scrapy."""

from __future__ import annotations

import json
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from spiders.workers import (
    All,
    Alone,
    Closing,
    Everyday,
    Other,
)
from support.crawl import Crawl
from support.judge import lines
from support.redis_server import LOGGED, RedisServer
from support.site import Page, Pages, graph
from support.waiting import until

pytestmark = pytest.mark.slow

SIZE = 150
WORKERS = 4


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Yield a server of its own that keeps a log."""
    with RedisServer(tmp_path / "redis", *LOGGED) as server:
        yield server


@pytest.fixture
def pages() -> Pages:
    pages: dict[str, Page] = graph(SIZE)
    for number in range(SIZE):
        for more in ("again", "memory"):
            pages[f"/{number}?{more}"] = "more"
    return {**pages, "/moved": "-> /there", "/there": "more"}


def test_all_workers_together_do_the_work_of_one_scrapy(crawl: Crawl) -> None:
    expected, asked = crawl.stock(Everyday)
    engine: Any = crawl.engine
    crawl.site.hold()  # no page comes before each has a part
    crew = [crawl.start(Everyday) for _ in range(WORKERS)]
    for worker in crew:
        worker.until_logged("This is worker")
    crew[0].until(lambda: len(engine.owners) == WORKERS)
    crawl.site.release()
    runs = [worker.finish() for worker in crew]
    assert lines(crawl.items()) == expected
    # A request that cannot be stored belongs to its worker, so each may make it, too.
    assert _without_memory(crawl.site.take()) == _without_memory(asked.elements())
    pages = [run.stats.get("downloader/response_count", 0) for run in runs]
    assert sum(pages) >= len(asked)
    # It stays finished.
    crawl.finish(Everyday)
    assert crawl.site.take() == []
    assert lines(crawl.items()) == expected


def _without_memory(visits: Iterable[str]) -> Counter[str]:
    return Counter(path for path in visits if "memory" not in path)


KINDS = ["kill", "stop", "redis", "back"]


@pytest.mark.parametrize("seed", range(2))
def test_every_item_is_written_once_after_faults(
    crawl: Crawl, redis: RedisServer, seed: int
) -> None:
    crawl.settings["BLOOMDUPE_REDIS_LEASE"] = 1
    expected, asked = crawl.stock(Everyday)
    first = len(crawl.site.log)
    rng = random.Random(seed)
    alive = [crawl.start(Everyday) for _ in range(3)]

    def far_enough(pages: int) -> bool:
        ended = not any(worker.alive for worker in alive)
        return ended or len(crawl.site.log) - first > pages

    for number in range(6):
        until(lambda: far_enough(25 * number))  # noqa: B023 - at once
        victim = rng.choice(alive)
        if not victim.alive:
            break
        what = KINDS[(seed + number) % len(KINDS)]
        if what == "kill":
            victim.kill()
            alive.remove(victim)
            alive.append(crawl.start(Everyday))
        elif what == "stop":
            victim.send(signal.SIGSTOP)
            time.sleep(rng.uniform(0.5, 2.0))  # the lease is one second
            victim.send(signal.SIGCONT)
        else:
            for worker in alive:
                worker.until_logged("This is worker")
            before = redis.written
            time.sleep(rng.uniform(0, 0.5))
            redis.kill()
            if what == "back":
                redis.cut_back(*before)
            redis.start()
    for worker in alive:
        worker.until_finished()
    crawl.finish(Everyday)  # Redis may have gone back when all workers had finished
    assert lines(crawl.items()) == expected
    crawl.bloomdupe("collect", crawl.engine.job, "collected")
    collected = (crawl.folder / "collected" / "items.jsonl").read_text().splitlines()
    assert lines(map(json.loads, collected)) == expected
    assert set(asked) == set(crawl.site.take())


def test_requests_of_an_interrupted_worker_continue_at_once(crawl: Crawl) -> None:
    """After Ctrl-C or CloseSpider, the other workers need not wait for the lease."""
    expected, _ = crawl.stock(All)
    crawl.settings["BLOOMDUPE_REDIS_LEASE"] = 600
    assert crawl.run(Closing, CLOSE=True).finish_reason == "enough"
    crawl.interrupted(Closing, after=1)
    crawl.finish(Closing)
    assert lines(crawl.items()) == expected


REFUSED: list[tuple[type[Spider], str, str]] = [
    (All, "JOBDIR=job", "JOBDIR and BLOOMDUPE_REDIS_URL are both set"),
    (All, "BLOOMDUPE_EXACT=1", "BLOOMDUPE_EXACT: .* was made with exact = "),
    (All, "BLOOMDUPE_FPP=0.01", "BLOOMDUPE_FPP: .* was made with fpp = 1e-06"),
    (All, "BLOOMDUPE_EXPECTED_URLS=9", "EXPECTED_URLS: .* = 10000, but"),
    (Other, "LOG_ENABLED=1", "was made with spider = 'all'"),
    (All, "BLOOMDUPE_REDIS_URL=redis://localhost:1/0#a", "no Redis answers there"),
    (All, "BLOOMDUPE_REDIS_URL=redis://localhost:1", "must end in the name of the"),
    (All, 'FEEDS={"a.csv": {"format": "csv"}}', r"but feeds = \['a.csv'\] is asked"),
]


def test_an_impossible_crawl_is_refused(crawl: Crawl) -> None:
    crawl.finish(All)
    items = crawl.items()
    for spider, setting, words in REFUSED:
        name, _, value = setting.partition("=")
        run = crawl.refused(spider, **{name: value})
        assert re.search(words, run.log), run.log
    assert crawl.items() == items


def test_a_worker_waits_for_requests_that_redis_does_not_know(crawl: Crawl) -> None:
    crawl.finish(Alone)
    assert lines(crawl.items()) == lines({"page": n} for n in range(6))
