"""Several workers on one crawl: real processes, a real Redis, beside stock Scrapy."""

from __future__ import annotations

import re
import signal

import pytest
from scrapy import Spider
from spiders.follow import PutsOut
from spiders.scheduler import Renamed, RenamedLater
from spiders.workers import (
    SLOT_OF_LEADER,
    All,
    Begins,
    FromATask,
    InMemory,
    InMemoryForLong,
    InTwoSteps,
    OnceFromATask,
)
from support.crawl import Crawl
from support.engines import Redis
from support.redis_server import RedisServer
from support.repetition import by_default
from support.site import graph, links

from bloomdupe.frontier.held_frontier import CONTROL
from bloomdupe.frontier.sent_request import partition_of

pytestmark = pytest.mark.slow

PAGES, STARTS = graph(150), ("/0",)
REFUSED: list[tuple[type[Spider], str, str]] = [
    (All, "JOBDIR=job", "JOBDIR does not work with BLOOMDUPE_REDIS_URL"),
    (All, "BLOOMDUPE_FILTER_MEMORY=3000000", "MEMORY does not work with"),
    (All, "BLOOMDUPE_EXACT=1", "BLOOMDUPE_EXACT: .* was made with exact = "),
    (InTwoSteps, "LOG_ENABLED=1", "was made with spider = 'all'"),
    (All, "BLOOMDUPE_REDIS_URL=redis://localhost:1/0#a", "no Redis answers there"),
    (All, "BLOOMDUPE_REDIS_URL=redis://localhost:1", "must end in the name of the"),
    (All, 'FEEDS={"a.csv": {"format": "csv"}}', r"but feeds = \['a.csv'\] is asked"),
    (All, 'FEEDS={"a.csv": {}, "./a.csv": {}}', "have the same file .*a.csv; give"),
]


def test_an_impossible_crawl_is_refused(crawl: Crawl) -> None:
    crawl.finish(All)
    items = crawl.items()
    for spider, setting, words in REFUSED:
        name, _, value = setting.partition("=")
        run = crawl.refused(spider, **{name: value})
        assert re.search(words, run.log), run.log
    assert crawl.items() == items


@pytest.mark.parametrize(
    "spider", [pytest.param(InTwoSteps, marks=by_default), InMemory, FromATask]
)
def test_nothing_between_a_refused_commit_and_the_next_partitions_counts_twice(
    crawl: Crawl, engine: Redis, spider: type[Spider]
) -> None:
    crawl.starts = ("/0", "/1")
    worker = crawl.start(spider)
    worker.until(crawl.items)
    engine.end_leases()
    worker.until_logged("A commit was refused")
    (crawl.folder / "go").touch()
    worker.finish()
    assert sorted(crawl.site.requested) == ["/0", "/1"]
    assert sorted(item["page"] for item in crawl.items()) == [0, 1]


def test_a_request_of_no_page_that_was_not_sent_yet_is_sent_again(
    crawl: Crawl, engine: Redis
) -> None:
    assert partition_of(SLOT_OF_LEADER) == CONTROL
    crawl.starts = ("/0", "/1")
    leader = crawl.start(OnceFromATask)
    leader.until(crawl.items)
    (token,) = engine.owners
    worker = crawl.start(OnceFromATask, TASK="1")
    worker.until(lambda: len(engine.owners) == 2)
    engine.end_leases(*(engine.owners.keys() - {token}))
    worker.until_logged("A commit was refused")
    (crawl.folder / "go").touch()  # it has no partition now
    crawl.site.until_requested(2)
    (crawl.folder / "end").touch()
    worker.finish()
    leader.until_finished()
    assert sorted(item["page"] for item in crawl.items()) == [0, 1]


@by_default
def test_a_start_request_in_memory_is_done_by_the_next_leader(
    crawl: Crawl, engine: Redis
) -> None:
    crawl.starts = ("/0", "/1")
    leader = crawl.start(InMemoryForLong)
    leader.until(crawl.items)
    other = crawl.start(InMemoryForLong)
    other.until(lambda: len(engine.owners) == 2)
    leader.kill()
    engine.end_leases()
    (crawl.folder / "go").touch()
    other.finish()
    assert sorted(item["page"] for item in crawl.items()) == [0, 1]


@pytest.mark.parametrize(
    ("stays", "waits"),
    [pytest.param(False, False, marks=by_default), (True, False), (False, True)],
)
def test_what_the_leader_has_finished_the_next_one_does_not_begin_again(
    crawl: Crawl, engine: Redis, stays: bool, waits: bool
) -> None:
    crawl.settings["BLOOMDUPE_STAY"] = stays
    crawl.site.hold("/0")
    leader = crawl.start(Begins)
    leader.until_requested("/0")
    if waits:  # the other one gets no partition as long as the leader is there
        leader.send(signal.SIGSTOP)
    other = crawl.start(Begins)
    if waits:
        other.until(lambda: len([*filter(None, engine.sample.steps.values())]) == 2)
    else:
        other.until_logged("Resuming crawl")
    other.send(signal.SIGSTOP)
    leader.send(signal.SIGCONT)
    crawl.site.release()
    if stays:
        leader.until_logged("Nothing is pending")
        crawl.bloomdupe("stop", engine.job)
    ended = leader.wait()
    other.send(signal.SIGCONT)
    for run in (ended, other.wait()):
        assert run.status == 0
        assert re.search("inished.* 1 page", run.log), run.log
    assert engine.records(crawl.folder, "filter")[0]["notes"]["run"] == "finished"
    assert sorted(map(len, crawl.items())) == [1, 1]


def test_workers_pass_on_requests_that_they_have_set_aside(crawl: Crawl) -> None:
    crawl.site.pages = {"/0": links(*"1234")}
    crawl.run(Renamed)
    crawl.settings["BLOOMDUPE_REDIS_LEASE"] = 1  # passed on as quickly
    for worker in [crawl.start(RenamedLater) for _ in range(2)]:
        run = worker.wait()
        assert (run.status, run.finish_reason) == (1, "incomplete"), run.log
        assert "Requests that are not done: 4" in run.log


def test_the_url_has_the_name_of_the_spider(
    crawl: Crawl, redis_server: RedisServer
) -> None:
    crawl.site.pages = {"/0": ""}
    crawl.run(PutsOut, BLOOMDUPE_REDIS_URL=redis_server.url("of %(spider)s"))
    crawl.engine.job = redis_server.url("of puts_out")
    assert crawl.items() == [{"page": "0"}]
