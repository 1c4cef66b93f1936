"""The state of a host goes with it from worker to worker; the judge is the site."""

from __future__ import annotations

import json
import re
import time
from typing import Any
from urllib.request import urlopen

import pytest
from spiders.retries import Many
from spiders.workers import All, Plain, Timed
from support.crawl import Crawl
from support.judge import lines
from support.ports import kept_port
from support.redis_server import RedisServer
from support.site import Answer, Pages, graph, links

FOREVER = 600
"""Seconds; no test waits for so long."""
HOLD = 3


@pytest.fixture
def pages() -> Pages:
    return graph(42)


def job(crawl: Crawl) -> Any:
    return json.loads(crawl.bloomdupe("info", crawl.engine.job, "--json"))["job"]


def states(redis: RedisServer) -> list[Any]:
    """Return the states of all slots."""
    with redis.client() as client:
        keys = client.keys("bloomdupe:{crawl}:*:about")
        return [json.loads(one) for key in keys for one in client.hvals(key)]


@pytest.mark.slow
def test_a_joining_worker_has_work_at_once_with_any_delays(crawl: Crawl) -> None:
    """No worker looks at the leases again before the test is over."""
    crawl.settings |= {
        "BLOOMDUPE_REDIS_LEASE": FOREVER,
        "DOWNLOAD_DELAY": FOREVER,
        "RANDOMIZE_DOWNLOAD_DELAY": False,
    }
    crawl.site.hold_after(1)
    one = crawl.start(All, CONCURRENT_REQUESTS=1)
    one.until_requested(2)  # so six hosts have requests, and were not asked
    two = crawl.start(All)
    # It gets two of the four partitions with requests, or only one, if the first worker
    # still works on the other. All requests in one may be for the same host.
    two.until_requested(1)
    crawl.site.release()
    for worker in (one, two):
        assert worker.interrupt().status == 0


@pytest.mark.slow
def test_a_rest_is_in_the_log_in_info_and_in_the_metrics(
    crawl: Crawl, redis: RedisServer
) -> None:
    crawl.settings["RETRY_ENABLED"] = True
    crawl.site.pages = {"/0": Answer("", 503, {"Retry-After": "1000"})}
    one = crawl.start(
        Plain, BLOOMDUPE_PROGRESS_INTERVAL=0.2, BLOOMDUPE_METRICS=kept_port()
    )
    one.until_logged("1 pending on 1 host (1 resting)")
    one.until(lambda: states(redis))
    (url,) = re.findall(r"http://127\.0\.0\.1:\d+/metrics", one.log)
    with urlopen(url, timeout=300) as answer:  # noqa: S310 - on loopback
        text = answer.read().decode()
    assert 'bloomdupe_resting_slots{spider="plain"} 1.0' in text
    assert "bloomdupe_disk_free_bytes" not in text  # an alert asks for it
    ((slot, rest),) = job(crawl)["resting"].items()
    assert rest["reason"] == "Retry-After"
    text = crawl.bloomdupe("info", crawl.engine.job)
    assert re.search(rf"{slot} +0, rests until .* \(Retry-After\)", text)
    run = one.interrupt()
    both = "Stopped; 0 pages, 0 items by this worker; 0 pages, 0 items by all workers"
    assert f"{both}: run the same command" in run.log


@pytest.mark.slow
def test_retry_after_is_obeyed_by_the_next_owner(
    crawl: Crawl, redis: RedisServer
) -> None:
    crawl.settings["RETRY_ENABLED"] = True
    busy = Answer("", 503, {"Retry-After": f"{HOLD}"})
    crawl.site.pages = {"/0": [busy, links("/1")], "/1": "a page"}
    one = crawl.start(Plain)
    one.until(lambda: states(redis))
    one.kill()
    redis.end_leases("crawl")
    (two,) = crawl.finish(Plain)
    both = "Finished; 2 pages, 2 items by this worker; 2 pages, 2 items by all workers"
    assert f"{both}; `bloomdupe collect" in two.log
    first, second = crawl.site.times("/0")
    assert second - first >= HOLD - 0.01
    assert lines(crawl.items()) == lines([{"page": "0"}, {"page": "1"}])
    assert job(crawl)["resting"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_a_delay_holds_over_a_stop_and_a_kill(
    crawl: Crawl, redis: RedisServer, killed: bool
) -> None:
    delay = 2.0
    crawl.settings |= {"DOWNLOAD_DELAY": delay, "RANDOMIZE_DOWNLOAD_DELAY": False}
    # Both are on one host, and the first page is not.
    crawl.site.pages = {"/0": links("/1"), "/1": links("/8"), "/8": "a page"}
    one = crawl.start(Timed)
    one.until(lambda: len(states(redis)) == 2)
    if killed:
        one.kill()
        redis.end_leases("crawl")
    else:
        one.interrupt()
    crawl.finish(Timed)
    asked = {item["page"]: item["asked"] for item in crawl.items()}
    assert asked[8] - asked[1] >= delay - 0.01


@pytest.mark.slow
def test_a_host_that_fails_rests_on_the_next_worker_too(
    crawl: Crawl, redis: RedisServer
) -> None:
    crawl.settings |= {
        "RETRY_ENABLED": True,
        "BLOOMDUPE_RETRY_BACKOFF": [FOREVER, 1, FOREVER],
        "PAGES": 20,
    }
    crawl.site.pages = lambda _: None  # no answer
    one = crawl.start(Many)
    one.until(lambda: any("circuit" in state for state in states(redis)))
    one.kill()
    redis.end_leases("crawl")
    before = len(crawl.site.log)
    two = crawl.start(Many)
    two.until_logged("(no answer) and rests until")
    ((_, rest),) = job(crawl)["resting"].items()
    assert rest["reason"] == "no answer"
    assert two.interrupt().status == 0
    assert len(crawl.site.log) == before


@pytest.mark.slow
def test_a_retry_that_waits_keeps_no_partition_from_a_worker_that_joins(
    crawl: Crawl, redis: RedisServer
) -> None:
    crawl.settings["BLOOMDUPE_REDIS_LEASE"] = FOREVER
    hour: Any = {"RETRY_ENABLED": True, "BLOOMDUPE_RETRY_BACKOFF": [3_600, 1, 3_600]}
    crawl.site.pages = lambda _: Answer("", 500)
    engine: Any = crawl.engine
    hour["DOWNLOAD_DELAY"] = 0.01  # so the slot has a state
    one = crawl.start(Many, PAGES=1, **hour)
    one.until_requested(1)
    one.until(lambda: sum(count.later for count in engine.counts()) == 1)
    with redis.client() as client:
        (key,) = client.keys("bloomdupe:{crawl}:*:about:ends")
        ((_, ends),) = client.zrange(key, 0, -1, withscores=True)
    assert ends / 1000 > time.time() + 1_000  # the state of its slot stays as long
    two = crawl.start(Many, PAGES=1, **hour)
    two.until(lambda: sorted(engine.owners.values()) == [4, 4])
    for worker in (one, two):
        assert worker.interrupt().status == 0


@pytest.mark.slow
def test_a_delay_of_autothrottle_goes_on_with_the_next_owner(
    crawl: Crawl, redis: RedisServer
) -> None:
    crawl.settings |= {"AUTOTHROTTLE_ENABLED": True, "RANDOMIZE_DOWNLOAD_DELAY": False}
    crawl.site.pages = {"/0": links("/1"), "/1": links("/2"), "/2": "a page"}
    one = crawl.start(Plain, AUTOTHROTTLE_START_DELAY=4)
    one.until(lambda: states(redis))
    one.kill()
    redis.end_leases("crawl")
    crawl.site.hold("/2")
    two = crawl.start(Plain, AUTOTHROTTLE_START_DELAY=0.01)
    two.until_requested("/2")
    # It is halved with each quick page, from 4 s on.
    assert [state["delay"] >= 1 for state in states(redis)] == [True]
    crawl.site.release()
    two.finish()
