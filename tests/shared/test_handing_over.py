"""Hosts that go from one worker to another: at once, with their delays, and in time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from spiders.workers import HOSTS, All, Poison, Timed
from support.crawl import Crawl
from support.judge import lines
from support.site import Pages, graph

from bloomdupe.crawl.engines.on_redis.heartbeat import Heartbeat

SIZE = 42
ALL = lines({"page": number} for number in range(SIZE))
SLOW = 600
"""Seconds; no test waits for so long."""


@pytest.fixture
def pages() -> Pages:
    return graph(SIZE)


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.settings["RANDOMIZE_DOWNLOAD_DELAY"] = False
    return crawl


@pytest.mark.slow
def test_a_worker_that_is_blocked_loses_its_hosts(crawl: Crawl) -> None:
    crawl.settings["BLOOMDUPE_REDIS_LEASE"] = 1
    blocked = crawl.start(All, BLOCK=True)
    blocked.until_requested(1)
    crawl.finish(All)
    assert lines(crawl.items()) == ALL
    blocked.until_logged("The reactor has been blocked for 2 s: a callback")
    blocked.until_logged("The reactor has been blocked for 4 s: this worker does")


@pytest.mark.slow
def test_a_page_that_blocks_each_worker_is_set_aside(crawl: Crawl) -> None:
    crawl.settings["BLOOMDUPE_REDIS_LEASE"] = 1
    one, two = workers = [crawl.start(Poison) for _ in range(2)]
    one.until(lambda: not (one.alive and two.alive))
    (crawl.folder / "over").touch()
    for worker in workers:
        run = worker.wait()
        assert (run.status, run.finish_reason) == (1, "incomplete"), run.log
        assert "A request is set aside, and stays in the job: http" in run.log
    page = lines([{"page": 5}])
    assert lines(crawl.items()) & page == lines([])
    assert "/5: its callback has blocked" in crawl.bloomdupe("info", crawl.engine.job)
    failed = crawl.bloomdupe("list", "--failed", "--reason", "lost", crawl.engine.job)
    assert failed.count("its callback has blocked a worker") == 1
    crawl.finish(Poison)  # what has begun later tries it again
    assert lines(crawl.items()) == ALL
    assert not crawl.bloomdupe("list", "--failed", crawl.engine.job)


@pytest.mark.slow
def test_a_joining_worker_does_not_wait_for_requests_at_hand(crawl: Crawl) -> None:
    slow = crawl.start(All, DOWNLOAD_DELAY=SLOW)
    slow.until_requested(5)  # so it has requests at hand
    quick = crawl.start(All)
    # Of each of its eight slots, the slow one asks for one page.
    crawl.site.until_requested(9)
    assert slow.interrupt().status == 0
    quick.finish()
    assert lines(crawl.items()) == ALL


@pytest.mark.slow
def test_delays_hold_when_a_host_changes_hands(crawl: Crawl) -> None:
    delay = 3.0
    engine: Any = crawl.engine
    crawl.settings |= {"DOWNLOAD_DELAY": delay, "PAGES": 3 * HOSTS}
    # No host answers a second time before the other worker is there.
    crawl.site.hold_after(1 + HOSTS)
    one = crawl.start(Timed)
    one.until_requested(1 + HOSTS)
    two = crawl.start(Timed)
    # Partitions without a host in progress change hands at once.
    two.until(lambda: len(engine.owners) == 2)
    crawl.site.release()
    one.finish()
    assert two.finish().stats["downloader/response_count"]
    asked: dict[int, list[float]] = {}
    for item in crawl.items():
        # The first page is the only one in the slot of the site itself.
        host = item["page"] % HOSTS if item["page"] else -1
        asked.setdefault(host, []).append(item["asked"])
    assert len(asked) == 1 + HOSTS
    for times in map(sorted, asked.values()):
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert min(gaps, default=delay) > delay - 0.5


# Whether the reactor runs


class Loop:
    """Replaces the reactor: it makes its calls when it is told to run."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        self.calls.append((function, arguments))

    def run(self) -> None:
        for function, arguments in self.calls:
            function(*arguments)
        self.calls.clear()


def test_a_reactor_is_lost_after_a_warning_and_may_come_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    loop = Loop()
    heartbeat = Heartbeat(loop.post, interval=0.5, lease_seconds=2)
    for _ in range(100):
        heartbeat.beat()
        loop.run()
    assert not caplog.records
    said = []
    for _ in range(100):
        heartbeat.beat()
        said.append((len(caplog.records), heartbeat.is_lost))
    assert len(loop.calls) == 1  # a blocked reactor does not get more and more to do
    # Nothing for the first question, and then a question every half a second.
    assert said[:17] == [(0, False)] * 8 + [(1, False)] * 8 + [(2, True)]
    assert said[-1] == (2, True)
    loop.run()
    heartbeat.beat()
    assert not heartbeat.is_lost
    assert caplog.messages[-1].startswith("The reactor runs again")
