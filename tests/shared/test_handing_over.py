"""Hosts that go from one worker to another: at once, with their delays, and in time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from spiders.workers import HOSTS, All, Timed
from support.crawl import Crawl
from support.judge import lines
from support.site import graph

SIZE = 42
ALL = lines({"page": number} for number in range(SIZE))
SLOW = 600
"""Seconds; no test waits for so long."""

PAGES, STARTS = graph(SIZE), ("/0",)
SETTINGS = {"RANDOMIZE_DOWNLOAD_DELAY": False}


def test_a_joining_worker_does_not_wait_for_requests_at_hand(crawl: Crawl) -> None:
    slow = crawl.start(All, DOWNLOAD_DELAY=SLOW)
    slow.until_requested(5)  # so it has requests at hand
    quick = crawl.start(All)
    # Of each of its eight slots, the slow one asks for one page.
    crawl.site.until_requested(9)
    assert slow.interrupt().status == 0
    quick.finish()
    assert lines(crawl.items()) == ALL
    # Each of them has records of some.
    assert f", with {SIZE} pages and {SIZE} items: only" in crawl.run(All).log


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
    # Partitions without a host in flight change hands at once.
    two.until(lambda: len(engine.owners) == 2)
    crawl.site.release()
    one.until_finished()
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
