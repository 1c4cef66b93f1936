"""Why a crawl is slow: a server that is away, or asks for patience; and delays."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from spiders.follow import Follow
from spiders.retries import Many
from support.crawl import Crawl
from support.jobs import run as verb
from support.site import Answer, Site

from bloomdupe import BloomFilter
from bloomdupe.crawl.progress.slot_times import SlotPaces, SlotTimes
from bloomdupe.frontier.frontier import Frontier

CLOCK = r"\d\d:\d\d:\d\d"
HOUR = 3_600
REST: dict[str, Any] = {
    "RETRY_ENABLED": True,
    "BLOOMDUPE_RETRY_BACKOFF": [HOUR, 1, HOUR],
    "BLOOMDUPE_PROGRESS_INTERVAL": 0.05,
}


@pytest.fixture
def job(
    crawl: Crawl, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, dict[str, Any]]]:
    """Return the output of a verb for the job, as text and as JSON."""

    def read(name: str) -> tuple[str, dict[str, Any]]:
        path = str(crawl.folder / "job")
        found = json.loads(verb(capsys, "info", path, "--json").out)["job"]
        return verb(capsys, name, path).out, found or {}

    return read


def test_a_server_that_is_away_is_named_with_cause_and_time(
    crawl: Crawl, site: Site, job: Callable[..., Any]
) -> None:
    site.pages = lambda _: None  # it closes each connection
    process = crawl.start(Many, PAGES=20, **REST)
    said = re.compile(
        rf"Slot '127.0.0.1' has failed \d+ times in a row \(no answer\) and rests until"
        rf" {CLOCK}\n"
    )
    process.until(lambda: said.search(process.log))
    process.until(lambda: job("info")[1].get("resting"))
    (rest,) = job("info")[1]["resting"].values()
    assert rest["reason"] == "no answer"
    assert HOUR / 2 - 60 <= rest["until"] - time.time() <= HOUR
    rests = rf"rests until {CLOCK} \(no answer\)"
    assert re.search(rf"^  127\.0\.0\.1 +\d+, {rests}$", job("info")[0], re.MULTILINE)
    top = job("top")[0]
    assert "all resting" in top
    assert re.search(rf"127\.0\.0\.1 .*{rests}", top)
    line = re.compile(r" pending on 1 host \(1 resting\)")
    process.until(lambda: line.search(process.log))
    process.kill()
    # The next run says so, too.
    process = crawl.start(Many, PAGES=20, **REST)
    process.until(lambda: said.search(process.log))
    process.kill()


@pytest.mark.usefixtures("engine")
def test_a_server_that_asks_for_patience_is_named(crawl: Crawl, site: Site) -> None:
    site.pages = lambda _: Answer("", 503, {"Retry-After": "120"})
    process = crawl.start(Follow, RETRY_ENABLED=True)
    said = rf"Slot '127.0.0.1' rests, as its Retry-After asks, until {CLOCK}\n"
    process.until(lambda: re.search(said, process.log))
    process.kill()


def test_delays_are_shown_and_the_slowest_slot_decides_when_it_ends(
    crawl: Crawl, job: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    process = crawl.start(
        Follow,
        DOWNLOAD_SLOTS={"127.0.0.1": {"delay": 50, "concurrency": 1}},
        BLOOMDUPE_PROGRESS_INTERVAL=0.05,
    )
    process.until_requested("/")  # so there is a job
    process.until(lambda: job("info")[1].get("pending") == 6)
    assert job("info")[1]["delays"] == {"127.0.0.1": 50}
    assert "a request every 50 s" in job("top")[0]
    assert process.interrupt().finish_reason == "shutdown"
    path = str(crawl.folder / "job")
    found = json.loads(verb(capsys, "top", path, "--json").out)
    assert found["last_point"]["slowest"] == 50 * found["last_point"]["pending"] > 0


def test_the_pace_of_a_slot_is_that_of_the_last_minute_or_two() -> None:
    paces = SlotPaces()
    found = []
    for second in range(0, 181, 5):
        paces.begin(1_000.0 + second)
        fast = paces.seconds_for("fast", 100, 10 * second)
        # From the third minute on it is half as fast.
        pages = second if second <= 120 else 120 + (second - 120) // 2
        slow = paces.seconds_for("slow", 30, pages)
        found.append((second, fast, slow))
    assert found[:2] == [(0, 0.0, 0.0), (5, 0.0, 0.0)]  # too early
    assert found[2] == (10, 10.0, 30.0)
    assert found[24] == (120, 10.0, 30.0)
    assert found[-1] == (180, 10.0, 60.0)
    paces.begin(1_300.0)
    assert paces.seconds_for("stuck", 5, 7) == 0.0
    paces.begin(1_330.0)
    assert paces.seconds_for("stuck", 5, 7) == 0.0  # unknown: none has come


class Downloader:
    """The part of Scrapy's downloader that a look at the slots needs."""

    has_delays = False

    def __init__(self, *full: str) -> None:
        self._full = full

    def is_full(self, slot: str) -> bool:
        return slot in self._full


@pytest.mark.parametrize(("full", "slowest"), [(["slow"], 226.0), ([], 0.0)])
def test_a_slot_with_all_the_requests_that_it_may_have_decides(
    full: list[str], slowest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, counts = 1_000.0, {"slow": [0, 0], "fast": [0, 0]}
    monkeypatch.setattr(time, "monotonic", lambda: now)
    frontier = Frontier(BloomFilter(1_000))
    for slot, requests in (("slow", 226), ("fast", 226)):
        for number in range(requests):
            frontier.push(slot, 0, b"%d" % number)
    engine: Any = Downloader(*full)
    times = SlotTimes(frontier, engine, dict, lambda: counts)
    times.look()
    now += 20
    counts.update(slow=[20, 0], fast=[2_000, 0])
    look = times.look()
    assert look.slowest == slowest
    assert dict(look.largest) == {"slow": 226, "fast": 226}
