"""State, totals and delays in a checkpoint."""

from __future__ import annotations

import re
from typing import Any

import pytest
from scrapy import Spider
from spiders.checkpoint import Count, Unstorable
from support.crawl import Crawl
from support.site import PAGES

pytestmark = pytest.mark.slow

PATHS = sorted(path[1:] for path in PAGES)
ONE: dict[str, Any] = {"CONCURRENT_REQUESTS": 1}
NO_CONNECTION = {"ITEM_PIPELINES": {"spiders.checkpoint.NoConnection": 1}}


@pytest.mark.parametrize("spider", [Count, Unstorable])
def test_a_pipeline_that_fails_to_open_leaves_the_state_alone(
    crawl: Crawl, spider: type[Spider]
) -> None:
    """Scrapy would empty JOBDIR/spider.state, and fail to read it in the next run."""
    state = crawl.folder / "job" / "spider.state"
    for first in (True, False):
        before = None if first else state.read_bytes()
        refused = crawl.refused(spider, **NO_CONNECTION)
        assert "no connection" in refused.log
        assert (state.read_bytes() if state.exists() else None) == before
        log = crawl.run(spider, CLOSESPIDER_PAGECOUNT=3 if first else None).log
        assert "EOFError" not in log
        assert state.read_bytes()


def test_state_that_scrapy_has_stored_is_imported(crawl: Crawl) -> None:
    crawl.run(Count, ADDONS={}, CLOSESPIDER_PAGECOUNT=3)
    crawl.run(Count, JOBDIR="other", CLOSESPIDER_PAGECOUNT=3)
    state = crawl.folder / "job" / "spider.state"
    state.rename(crawl.folder / "other" / "spider.state")
    # Of the two, the one in the store is newer.
    assert crawl.run(Count, JOBDIR="other").stats["seen"] == PATHS


def test_delays_of_autothrottle_go_on(crawl: Crawl) -> None:
    crawl.settings |= {"AUTOTHROTTLE_ENABLED": True, "AUTOTHROTTLE_START_DELAY": 0.3}
    crawl.settings |= {"AUTOTHROTTLE_DEBUG": True, **ONE}
    first = delays(crawl.killed(Count, stop="here 5 seen").log)
    (delay, change), *_ = delays(crawl.run(Count).log)
    assert first[0][0] - first[0][1] == pytest.approx(300, abs=ROUNDING)
    assert any(abs(delay - change - known) <= ROUNDING for known, _ in first)


ROUNDING = 2
"""In milliseconds: of what is logged, both numbers are cut off."""


def delays(log: str) -> list[tuple[int, int]]:
    """Read the delays that AutoThrottle has set, in ms, and by how much it did."""
    found = re.findall(r"\| delay: *(\d+) ms \(([-+]\d+)\)", log)
    return [(int(delay), int(change)) for delay, change in found]
