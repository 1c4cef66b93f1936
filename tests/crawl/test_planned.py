"""Crawls that schedule requests for later, killed or shared; the site judges."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from spiders.planned import Planned, Spread
from support.crawl import Crawl, Process
from support.site import Pages, Site

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
