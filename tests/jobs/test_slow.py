"""Why a crawl is slow: a server that is away, or asks for patience; and delays."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from spiders.retries import Many
from support.crawl import Crawl
from support.jobs import run as verb
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
