"""Limits per slot: they last, and a request that they drop can be found later."""

from __future__ import annotations

from typing import Any

import pytest
from spiders.follow import Follow
from support.crawl import Crawl
from support.site import links

BUDGET = "BLOOMDUPE_MAX_PAGES_PER_SLOT"
PENDING = "BLOOMDUPE_MAX_PENDING_PER_SLOT"
AGAIN: dict[str, Any] = {"BLOOMDUPE_START_REQUESTS": "again"}
LEAVES = [f"/{number}" for number in range(20)]

PAGES = {"/": links(*LEAVES), **dict.fromkeys(LEAVES, links("/"))}
# No page is asked for before all links of its parent are scheduled.
SETTINGS = {"SCRAPER_SLOT_MAX_ACTIVE_SIZE": 0}


def leaves(crawl: Crawl) -> int:
    """Count the pages that were asked for, without the first one."""
    return len(crawl.site.count.keys() & {*LEAVES})


@pytest.mark.parametrize(
    ("limit", "what", "again"),
    # The budget is the job's, however often it is run.
    [(BUDGET, "page_limit", 5), (PENDING, "pending_limit", 10)],
)
def test_requests_over_a_limit_are_dropped_and_found_when_it_is_larger(
    crawl: Crawl, limit: str, what: str, again: int
) -> None:
    """The start page was asked for: it is no new request of the slot."""
    other_slot = crawl.site.base.replace("127.0.0.1", "localhost")
    crawl.site.pages = {**PAGES, "/": links(*LEAVES, f"{other_slot}/other")}
    settings: dict[str, Any] = {limit: 5}
    run = crawl.run(Follow, **settings)
    assert leaves(crawl) == 5
    assert run.stats[f"bloomdupe/dropped_{what}"] == 15
    assert run.log.count(f"has reached {limit} = 5") == 1
    crawl.run(Follow, **AGAIN, **settings)
    assert leaves(crawl) == again
    crawl.run(Follow, **AGAIN)
    assert crawl.site.count == {"/": 3, "/other": 1, **dict.fromkeys(LEAVES, 1)}


def test_accepted_requests_are_followed_to_their_redirects(crawl: Crawl) -> None:
    crawl.site.pages = {
        "/": links(*(f"/r{number}" for number in range(20))),
        **{f"/r{number}": f"-> /t{number}" for number in range(20)},
        **{f"/t{number}": "" for number in range(20)},
    }
    run = crawl.run(Follow, **{BUDGET: 5, PENDING: 5})
    _, *asked = sorted(crawl.site.requested)
    assert asked[5:] == [path.replace("/r", "/t") for path in asked[:5]]
    assert run.stats["bloomdupe/dropped_page_limit"] == 15
