"""Limits per slot hold over all workers, to the request."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from spiders.workers import HOSTS, All
from support.crawl import Crawl
from support.engines import Redis
from support.site import links

BUDGET = "BLOOMDUPE_MAX_PAGES_PER_SLOT"
SIZE = 100
MOST = 5


EVERY = links(*(f"/{number}" for number in range(SIZE)))
PAGES = {f"/{number}": EVERY for number in range(SIZE)}


@pytest.mark.slow
def test_no_slot_has_more_pages_on_all_workers_together(
    crawl: Crawl, engine: Redis
) -> None:
    limit: dict[str, Any] = {BUDGET: MOST, "CONCURRENT_REQUESTS": 4}
    crawl.site.hold_after(10)
    one, two, three = (crawl.start(All, **limit) for _ in range(3))
    crawl.site.until_requested(11)
    one.kill()
    engine.end_leases()
    crawl.site.release()
    runs = [two.until_finished(), three.until_finished()]
    asked = {int(path[1:]) for path in crawl.site.requested if path != "/0"}
    assert Counter(number % HOSTS for number in asked) == dict.fromkeys(
        range(HOSTS), MOST
    ) | {0: MOST - 1}  # a link to the first page is a page of slot 0, too
    # One of them may come too late for any page.
    assert sum(run.stats.get("bloomdupe/dropped_page_limit", 0) for run in runs) > 0
    assert f"has reached {BUDGET} = {MOST}" in runs[0].log + runs[1].log
