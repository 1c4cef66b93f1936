"""Crawls that schedule requests for later, killed or shared; the site judges."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from typing import Any
from urllib.request import urlopen

import pytest
from spiders.planned import InOrder, Planned, Spread
from support.crawl import Crawl, Process
from support.ports import kept_port
from support.site import Pages, Site
from support.waiting import DEADLINE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("engine", "feed"),
]

DAY = 86_400.0
ONCE = ["/", "/start", "/later", "/child", "/now"]
WANTED = Counter({**dict.fromkeys(ONCE, 1), "/often": 2, "/polled": 3, "/tired": 2})
ITEMS = [1] * 10 + [2]
"""How often each item comes: the two requests for /often have the same content."""
SPREAD = [f"/{number}" for number in range(16)]
ON_REDIS = pytest.mark.parametrize("engine", ["redis"], indirect=True)


@pytest.fixture
def pages() -> Pages:
    return {
        **dict.fromkeys([*WANTED, *SPREAD], "x"),
        "/tired": ["not yet", "x"],
    }


def items(crawl: Crawl) -> Counter[str]:
    return Counter(json.dumps(item, sort_keys=True) for item in crawl.items())


def state_of(crawl: Crawl) -> Any:
    return json.loads(crawl.bloomdupe("info", crawl.engine.job, "--json"))["job"]


def until_asleep(crawl: Crawl, *workers: Process) -> None:
    for worker in workers:
        worker.until_logged("scheduled for later, the next one for")
    workers[0].until(lambda: state_of(crawl)["state"] == "sleeping")


def judge(crawl: Crawl, site: Site, kills: int = 0) -> None:
    """Check that each request was fetched once, or once more a kill; each item once."""
    assert site.count.keys() == WANTED.keys()
    for path, wanted in WANTED.items():
        assert wanted <= site.count[path] <= wanted * (1 + kills), site.count
    found = items(crawl)
    assert sorted(found.values()) == ITEMS, found


def test_each_request_is_fetched_as_often_as_it_was_scheduled(
    crawl: Crawl, site: Site
) -> None:
    workers = 2 if crawl.engine.name == "redis" else 1
    runs = crawl.finish(Planned, workers, SECONDS=1)
    judge(crawl, site)
    told = [event for run in runs for event in run.events if event[0] == "begun"]
    times = {path: site.times(path) for path in WANTED}
    for path in ("/start", "/often"):
        assert min(times[path]) >= min(float(at) for _, at in told) + 0.9, path
    begun = times["/"][0]
    assert times["/later"][0] >= begun + 0.9
    assert times["/child"][0] >= times["/later"][0] + 0.5
    assert times["/polled"][2] >= begun + 1


@pytest.mark.parametrize("request_", [1, 3, 6, 9, 12])
def test_after_a_kill_none_is_lost_and_none_comes_too_often(
    crawl: Crawl, site: Site, request_: int
) -> None:
    """Before the requests are due, and after that."""
    crawl.settings |= {"SECONDS": 1, "CONCURRENT_REQUESTS": 2}
    crawl.killed(Planned, at_request=request_)
    crawl.finish(Planned)
    judge(crawl, site, kills=1)


def test_the_order_of_a_host_is_the_usual_one(crawl: Crawl) -> None:
    crawl.settings |= {"CONCURRENT_REQUESTS": 1, "BLOOMDUPE_WAIT": 0}
    crawl.run(InOrder, SECONDS=DAY)
    run = crawl.run(InOrder, before=crawl.engine.pass_time(DAY + 1))
    # By priority; a worker on Redis gets requests of the same priority in any order.
    asked = run.requested
    assert [{*asked[:2]}, {*asked[2:4]}, *asked[4:]] == [
        {"/1", "/4"},
        {"/0", "/3"},
        "/2",
    ]
    if crawl.engine.name == "disk":  # the newest first, as without a time
        assert asked[:4] == ["/4", "/1", "/3", "/0"]


def test_a_crawl_that_is_started_twice_schedules_them_once(
    crawl: Crawl, site: Site
) -> None:
    crawl.settings |= {"BLOOMDUPE_WAIT": 0, "SECONDS": DAY}
    for _ in range(2):
        run = crawl.run(Planned)
        assert run.finish_reason == "waiting"
    assert run.stats["bloomdupe/later"] == 7
    assert site.count == Counter({"/": 1, "/now": 1, "/polled": 1})
    assert state_of(crawl)["later"] == 7


def test_a_crawl_that_sleeps_can_be_stopped_and_goes_on(
    crawl: Crawl, site: Site
) -> None:
    process = crawl.start(Spread, SECONDS=DAY)
    until_asleep(crawl, process)
    crawl.bloomdupe("stop", crawl.engine.job)
    assert process.wait().finish_reason == "asked_to_stop"
    assert site.take() == ["/"]
    run = crawl.run(Spread, before=crawl.engine.pass_time(DAY))
    assert run.finish_reason == "finished"
    assert sorted(site.take()) == sorted(SPREAD)


def test_a_crawl_that_stays_open_fetches_them_and_waits_again(
    crawl: Crawl, site: Site
) -> None:
    process = crawl.start(Spread, SECONDS=1, BLOOMDUPE_STAY=True)
    process.until_requested(1 + len(SPREAD))
    process.until(lambda: state_of(crawl)["state"] == "waiting for URLs")
    crawl.bloomdupe("stop", crawl.engine.job)
    assert process.wait().finish_reason == "asked_to_stop"
    assert Counter(site.take()) == Counter(["/", *SPREAD])


def test_the_metrics_have_them(crawl: Crawl) -> None:
    process = crawl.start(
        Spread,
        SECONDS=DAY,
        BLOOMDUPE_PROGRESS_INTERVAL=0.2,
        BLOOMDUPE_METRICS=kept_port(),
    )
    until_asleep(crawl, process)
    (url,) = re.findall(r"http://127\.0\.0\.1:\d+/metrics", process.log)

    metrics: dict[str, float] = {}

    def all_are_found() -> bool:
        with urlopen(url, timeout=DEADLINE) as answer:  # noqa: S310 - on loopback
            text = answer.read().decode()
        found = re.findall(r"^bloomdupe_(\w+){.*} (.*)", text, re.MULTILINE)
        metrics.update((name, float(value)) for name, value in found)
        return metrics.get("later") == len(SPREAD)

    process.until(all_are_found)
    assert metrics["pending"] == 0
    due = metrics["next_due_timestamp_seconds"] - time.time()
    assert 0.9 * DAY < due < DAY
    process.interrupt()


# Several workers


@ON_REDIS
@pytest.mark.parametrize("killed", [True, False])
def test_they_outlive_the_workers_that_have_scheduled_them(
    crawl: Crawl, site: Site, *, killed: bool
) -> None:
    """Their hosts change hands while all sleep."""
    engine: Any = crawl.engine
    one = crawl.start(Spread, SECONDS=DAY)
    until_asleep(crawl, one)
    two = crawl.start(Spread)
    two.until(lambda: len(engine.owners) == 2)
    until_asleep(crawl, one, two)
    if killed:
        one.kill()
    else:
        one.interrupt()
    two.until(lambda: list(engine.owners.values()) == [4])
    engine.pass_time(DAY)
    assert two.finish().finish_reason == "finished"
    assert sorted(site.take()) == sorted(["/", *SPREAD])
    assert len(crawl.items()) == len(SPREAD)


@ON_REDIS
def test_workers_share_the_requests_that_are_due(crawl: Crawl, site: Site) -> None:
    engine: Any = crawl.engine
    crew = [crawl.start(Spread, SECONDS=DAY) for _ in range(2)]
    for worker in crew:
        worker.until_logged("This is worker")
    crew[0].until(lambda: sorted(engine.owners.values()) == [2, 2])
    until_asleep(crawl, *crew)
    engine.pass_time(DAY)
    for worker in crew:
        assert worker.finish().finish_reason == "finished"
    assert Counter(site.take()) == Counter(["/", *SPREAD])


@ON_REDIS
def test_all_workers_end_if_they_are_not_to_wait(crawl: Crawl, site: Site) -> None:
    site.hold("/")
    crew = [crawl.start(Spread, SECONDS=DAY, BLOOMDUPE_WAIT=0) for _ in range(2)]
    for worker in crew:
        worker.until_logged("This is worker")
    site.until_requested("/")
    site.release()
    for worker in crew:
        run = worker.wait()
        assert (run.status, run.finish_reason) == (0, "waiting")
        assert "16 requests are scheduled for later" in run.log
    assert state_of(crawl)["state"] == "stopped"
