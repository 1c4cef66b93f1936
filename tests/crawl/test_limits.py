"""Limits per slot: they last, and a request that they drop can be found later."""

from __future__ import annotations

import re
from typing import Any

import pytest
from spiders.follow import Follow
from spiders.workers import HOSTS, StartsMany
from support.crawl import Crawl
from support.engines import on_both_engines
from support.site import links, on_host

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


@on_both_engines
def test_what_start_yields_and_what_a_user_adds_has_room(
    crawl: Crawl, engine: Any
) -> None:
    most, shared = 3 * HOSTS, engine.collects
    crawl.settings |= {BUDGET: 2, PENDING: 1, "START": most}
    crawl.site.pages = dict.fromkeys([f"/{n}" for n in range(2 * most)], "")
    crawl.site.hold()
    crew = [crawl.start(StartsMany) for _ in range(1 + shared)]
    if shared:  # each has hosts
        crew[1].until(lambda: [*engine.owners.values()] == [8, 8])
    (crawl.folder / "go").touch()
    crew[0].until_requested(1)
    added = (on_host(f"{crawl.site.base}/{n}", n) for n in range(most, 2 * most))
    (crawl.folder / "lines").write_text("\n".join(added))
    crawl.bloomdupe("add", engine.job, "--from", "lines")
    said = re.compile(r"Added by `bloomdupe add`: (\d+) request")
    crew[0].until(
        lambda: sum(int(n) for one in crew for n in said.findall(one.log)) == most
    )
    crawl.site.release()
    for process in crew:
        process.finish()
    assert crawl.run(StartsMany).requested == []
    assert crawl.site.count == dict.fromkeys(crawl.site.pages, 1)
