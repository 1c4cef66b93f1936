"""Limits per slot: they last, and a request that they drop can be found later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings
from spiders.follow import AtOnce
from support.crawl import Crawl
from support.jobs import idle_crawler
from support.site import Pages, links

from bloomdupe import BloomFilter
from bloomdupe.crawl.state.limits import SlotLimits
from bloomdupe.errors import StoreDamagedError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.settings import JobSettings
from bloomdupe.store.participant import Part

PAGES = "BLOOMDUPE_MAX_PAGES_PER_SLOT"
PENDING = "BLOOMDUPE_MAX_PENDING_PER_SLOT"
AGAIN: dict[str, Any] = {"BLOOMDUPE_START_REQUESTS": "again"}
LEAVES = [f"/{number}" for number in range(20)]


@pytest.fixture
def pages() -> Pages:
    return {"/": links(*LEAVES), **dict.fromkeys(LEAVES, links("/"))}


def leaves(crawl: Crawl) -> int:
    """Count the pages that were asked for, without the first one."""
    return len(crawl.site.count.keys() & {*LEAVES})


def test_pages_over_the_budget_are_dropped_and_found_when_it_is_larger(
    crawl: Crawl,
) -> None:
    run = crawl.run(AtOnce, **{PAGES: 5})
    # The start page was asked for; it is no new request of the slot.
    assert leaves(crawl) == 5
    assert run.stats["bloomdupe/dropped_page_limit"] == 15
    assert run.log.count(f"has reached {PAGES} = 5") == 1
    # The budget is the job's, however often it is run.
    crawl.run(AtOnce, **AGAIN, **{PAGES: 5})
    assert leaves(crawl) == 5
    crawl.run(AtOnce, **AGAIN)
    assert crawl.site.count == {"/": 3, **dict.fromkeys(LEAVES, 1)}


def test_requests_over_the_limit_of_pending_requests_are_dropped(crawl: Crawl) -> None:
    run = crawl.run(AtOnce, **{PENDING: 5})
    assert leaves(crawl) == 5
    assert run.stats["bloomdupe/dropped_pending_limit"] == 15
    assert run.log.count(f"has reached {PENDING} = 5") == 1
    crawl.run(AtOnce, **AGAIN, **{PENDING: 50})
    assert leaves(crawl) == 20


def test_accepted_requests_are_followed_to_their_redirects(crawl: Crawl) -> None:
    crawl.site.pages = {
        "/": links(*(f"/r{number}" for number in range(20))),
        **{f"/r{number}": f"-> /t{number}" for number in range(20)},
        **{f"/t{number}": "" for number in range(20)},
    }
    run = crawl.run(AtOnce, **{PAGES: 5, PENDING: 5})
    _, *asked = sorted(crawl.site.requested)
    assert asked[5:] == [path.replace("/r", "/t") for path in asked[:5]]
    assert run.stats["bloomdupe/dropped_page_limit"] == 15


def open_limits(path: Path, pages: int) -> tuple[BloomFilter, Frontier, SlotLimits]:
    settings = JobSettings.read(Settings({"JOBDIR": str(path), PAGES: pages}))
    seen = BloomFilter.open(path / "bloomdupe", 1000)
    frontier = Frontier(seen)
    stats = idle_crawler().stats
    assert stats is not None
    return seen, frontier, SlotLimits(settings, frontier, stats)


def test_pages_are_counted_in_the_checkpoint_of_their_requests(tmp_path: Path) -> None:
    name = "long." * 200
    for taken in (0, 2, 4):
        seen, frontier, limits = open_limits(tmp_path, 6)
        for number in range(2):
            assert limits.room_for(name)
            assert limits.room_for("other")
            frontier.push(name, 0, b"%d" % number)
            limits.took(name)
        frontier.checkpoint(Part())
        for _ in range(4 - taken):
            assert limits.room_for(name)
            limits.took(name)  # and then it is killed
        assert not limits.room_for(name)
        seen.close()
    assert not open_limits(tmp_path, 6)[2].room_for(name)


def test_a_missing_count_is_noticed(tmp_path: Path) -> None:
    seen, frontier, limits = open_limits(tmp_path, 6)
    for name in "ab":
        limits.took(name)
    frontier.checkpoint(Part())
    assert frontier.store is not None
    frontier.store.commit(Part(write=Without(b"slots").write))
    seen.close()
    with pytest.raises(StoreDamagedError, match="slots"):
        open_limits(tmp_path, 6)


class Without:
    """Removes one record of a table."""

    def __init__(self, table: bytes) -> None:
        self.table = table

    def write(self, batch: object) -> None:
        table = batch._tables[self.table]  # type: ignore[attr-defined]
        with batch._txn.cursor(table) as cursor:  # type: ignore[attr-defined]
            cursor.first()
            cursor.delete()
