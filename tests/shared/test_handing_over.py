"""Hosts that go from one worker to another: at once, with their delays, and in time."""

from __future__ import annotations

import logging
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from crew import DEADLINE, Crew, graph
from support.page_server import page_server
from support.redis_server import RedisServer

from bloomdupe.shared.heartbeat import Heartbeat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SPIDERS = """
import time

import scrapy


class All(scrapy.Spider):
    # Pages of one site, as if they were on seven hosts.
    name = "all"
    custom_settings = {"RANDOMIZE_DOWNLOAD_DELAY": False}

    def parse(self, response):
        if self.settings.getbool("BLOCK"):
            time.sleep(1_000_000)
        yield {"page": int(response.url.rpartition("/")[2])}
        for href in response.css("a::attr(href)").getall():
            slot = str(int(href[1:]) % 7)
            if int(href[1:]) < self.settings.getint("PAGES", 1_000):
                yield response.follow(href, meta={"download_slot": slot})
"""
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
SIZE = 42
ALL = Counter(f'0 {{"page": {number}}}\n' for number in range(SIZE))
LEASE = 2
SLOW = 600
"""Seconds; no test waits for so long."""


@pytest.fixture
def times() -> list[float]:
    return []


@pytest.fixture
def crew(tmp_path: Path, times: list[float]) -> Iterator[Crew]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    with (
        RedisServer(tmp_path / "redis") as redis,
        page_server(graph(SIZE), times) as (base, requested),
    ):
        lease = f"BLOOMDUPE_REDIS_LEASE={LEASE}"
        crew = Crew(tmp_path, base, redis, requested, FEED, lease)
        try:
            yield crew
        finally:
            crew.dismiss()


@pytest.mark.slow
def test_a_worker_that_is_blocked_loses_its_hosts(crew: Crew) -> None:
    blocked = crew.hire("All", "BLOCK=1")
    crew.wait(lambda: bool(crew.requested))
    crew.hire("All").end()
    assert crew.items() == ALL
    assert "The reactor has been blocked for 4 s: a callback" in blocked.log
    assert "The reactor has been blocked for 8 s: this worker does" in blocked.log


@pytest.mark.slow
def test_a_worker_that_joins_does_not_wait_for_what_is_at_hand(crew: Crew) -> None:
    slow = crew.hire("All", f"DOWNLOAD_DELAY={SLOW}")
    crew.wait(lambda: len(crew.requested) >= 5)  # so it has requests at hand
    quick = crew.hire("All")
    # Of each of its eight slots, the slow one asks for one page.
    crew.wait(lambda: len(crew.requested) > 8)
    slow.process.send_signal(signal.SIGINT)
    assert slow.process.wait(DEADLINE) == 0
    quick.end()
    assert crew.items() == ALL


@pytest.mark.slow
def test_delays_hold_when_a_host_changes_hands(crew: Crew, times: list[float]) -> None:
    delay = 10.0
    settings = (f"DOWNLOAD_DELAY={delay}", "PAGES=14")
    one = crew.hire("All", *settings)
    crew.wait(lambda: len(crew.requested) >= 5)
    two = crew.hire("All", *settings)
    one.end()
    two.end()
    assert two.pages
    last: dict[str, float] = {}
    for path, at in zip(crew.requested, times, strict=True):
        # The first page is the only one in the slot of the site itself.
        slot = "start" if path == "/0" else str(int(path[1:]) % 7)
        assert at - last.get(slot, 0.0) > delay - 0.5, path
        last[slot] = at


# Whether the reactor runs


class Loop:
    """Stands for the reactor: it does what it was given when it is told to run."""

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
