"""Why a crawl is slow: a server that is away, or asks for patience; and delays."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from spiders.follow import Follow
from spiders.retries import Many
from support.jobs import run as verb
from support.monitored_jobs import point
from support.site import Answer

from bloomdupe.crawl.later.rests import Rest, rests_in
from bloomdupe.crawl.progress.line import progress
from bloomdupe.crawl.progress.pace import time_to_fill, time_to_go

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.crawl import Crawl
    from support.site import Site

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
    """Return what a verb says of the job, as text and as JSON."""

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
    process.until(lambda: crawl.store.exists() and job("info")[1].get("resting"))
    (rest,) = job("info")[1]["resting"].values()
    assert rest["reason"] == "no answer"
    assert HOUR / 2 - 60 <= rest["until"] - time.time() <= HOUR
    rests = rf"rests until {CLOCK} \(no answer\)"
    assert re.search(rf"^  127\.0\.0\.1 +\d+, {rests}$", job("info")[0], re.MULTILINE)
    top = job("top")[0]
    assert "1 resting" in top
    assert re.search(rf"127\.0\.0\.1 .*{rests}", top)
    line = re.compile(r" pending in 1 slot \(1 resting\)")
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
    process.until(lambda: crawl.store.exists() and job("info")[1].get("pending") == 6)
    assert job("info")[1]["delays"] == {"127.0.0.1": 50}
    assert "a request every 50 s" in job("top")[0]
    assert process.interrupt().finish_reason == "shutdown"
    path = str(crawl.folder / "job")
    found = json.loads(verb(capsys, "top", path, "--json").out)
    assert found["last_point"]["slowest"] == 50 * found["last_point"]["pending"] > 0


def test_a_rest_has_an_end_and_a_reason() -> None:
    record = {
        "holds": {"a": 5.0, "b": 20.0},
        "circuits": {
            "a": [5, 1, 30.0, False, "HTTP 503"],
            "c": [5, 4, 30.0, True, "no answer"],  # dead
            "d": [5, 0, 30.0, False, "no answer"],  # closed
            "e": [5, 1, 11.0, False],  # of an earlier version
        },
    }
    assert rests_in(record, 10.0) == {
        "e": Rest(11.0, "it has failed"),
        "b": Rest(20.0, "Retry-After"),
        "a": Rest(30.0, "HTTP 503"),
    }


def test_forecasts_need_data_and_look_at_the_slowest_slot() -> None:
    first = point(0, pending=1_000, free=10**6)
    last = point(10, pending=500, free=10**6 - 1_000)
    assert time_to_go(first, last) == pytest.approx(10)
    assert time_to_go(first, last._replace(slowest=226.0)) == 226.0
    assert time_to_fill(first, last) is None  # less than a minute of data
    later = point(60, free=10**6 - 1_000)
    assert time_to_fill(first, later) == pytest.approx(60 * 999)
    assert time_to_fill(first, later._replace(free=10**6 - 100)) is None  # days
    said = progress(None, None, point(0, slots=5, pending=9, resting=2), 1_000, 0.0)
    assert "9 pending in 5 slots (2 resting)" in said
