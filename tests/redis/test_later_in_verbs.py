"""Requests scheduled for later in a crawl on Redis, as the verbs show and move them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from support.jobs import IDENTITY, SPIDER
from support.jobs import run as verb
from support.standing_crawl import offer_of

from bloomdupe.moving.collecting import Collecting
from bloomdupe.redis.shared_frontier import SharedFrontier

THEN = 4_000_000_000.0
"""Unix time, in 2096."""


@pytest.fixture
def frontier(url: str) -> Iterator[SharedFrontier]:
    identity = {**IDENTITY, "feeds": ["a.jsonl"]}
    with SharedFrontier.open(url, 1_000, partitions=4, identity=identity) as frontier:
        for number in range(6):
            page = f"https://host{number % 2}.example/{number}"
            request = Request(page, SPIDER.parse_item, priority=number)
            offer = offer_of(request, f"host{number % 2}.example")
            not_before = THEN + frontier.clock_ahead if number < 4 else None
            frontier.offer([offer._replace(not_before=not_before)])
        yield frontier


@pytest.fixture
def ask(url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def called(name: str, *words: object) -> str:
        answer = verb(capsys, name, url, *words)
        assert (answer.code, answer.err) == (0, "")
        return answer.out

    return called


def described(ask: Callable[..., str]) -> Any:
    return json.loads(ask("info", "--json"))["job"]


@pytest.mark.usefixtures("frontier")
def test_they_are_listed_and_counted(ask: Callable[..., str]) -> None:
    found = [json.loads(line) for line in ask("list", "--json").splitlines()]
    times = {one["url"]: one.get("not_before") for one in found}
    for number in range(6):
        then = times[f"https://host{number % 2}.example/{number}"]
        assert then == (pytest.approx(THEN, abs=1) if number < 4 else None)
    line = ask("list", "--slot", "host1.example", "--pattern", "/3$")
    url = "https://host1.example/3"
    assert line.startswith(
        f"host1.example  3  GET  parse_item  {url}  after 2096-10-02"
    )
    job = described(ask)
    assert (job["pending"], job["later"], job["slots"]) == (6, 4, 2)
    assert "  scheduled for later                  4\n" in ask("info")


def test_a_crawl_in_which_all_requests_are_for_later_sleeps(
    frontier: SharedFrontier, ask: Callable[..., str], tmp_path: Path
) -> None:
    frontier.tend()
    leases = frontier.lease(9)
    frontier.settle((lease, []) for lease in leases)
    job = described(ask)
    assert job["state"] == "sleeping"
    assert job["state_time"] == pytest.approx(THEN, abs=1)
    with Collecting.open(
        frontier.shown, tmp_path / "out", progress=lambda _: None
    ) as collecting:
        collecting.run()
        assert not collecting.result.finished


def test_they_are_dropped(frontier: SharedFrontier, ask: Callable[..., str]) -> None:
    assert ask("drop", "--pattern", "/(1|5)$") == "2 removed, 4 pending\n"
    assert ask("drop", "--slot", "host0.example") == "3 removed, 1 pending\n"
    assert [counts.later for counts in frontier.counts() if counts.pending] == [1]
