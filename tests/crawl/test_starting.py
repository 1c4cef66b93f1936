"""Start requests that are other ones in each run are known by their places."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from spiders.starting import (
    Fed,
    Gate,
    InTurn,
    LateItems,
    Stamped,
    without_heartbeat,
)
from support.crawl import FEEDS, Crawl
from support.engines import on_both_engines
from support.repetition import by_default
from support.site import Pages

from bloomdupe.inside_scrapy.engine import EngineAccess

pytestmark = pytest.mark.slow

PAGES: Pages = dict.fromkeys(("/a", "/b", "/c"), "")
SETTINGS = {"FEEDS": FEEDS}


def items(crawl: Crawl) -> list[tuple[str, int]]:
    return sorted((item["page"], item["n"]) for item in crawl.items())


@by_default
def test_a_job_knows_its_start_requests_once_start_has_ended(crawl: Crawl) -> None:
    crawl.killed(Stamped, stop="here all")
    # Later, the job has finished.
    for _ in range(2):
        run = crawl.run(Stamped)
        assert run.stats["bloomdupe/start_requests_skipped"] == 3
        assert items(crawl) == [("a", 0), ("a", 0), ("b", 0)]
    assert run.requested == []
    # More for the same page are new work.
    assert sorted(crawl.run(Stamped, MORE=True).requested) == ["/a", "/c"]
    assert crawl.run(Stamped, MORE=True).requested == []


def test_a_start_page_is_fetched_once_more_with_a_cookie(crawl: Crawl) -> None:
    assert crawl.run(Gate, starts=("/a",)).requested == ["/a", "/a"]
    assert items(crawl) == [("a", 0)]


@on_both_engines
def test_before_its_end_start_may_change_the_order(crawl: Crawl) -> None:
    """The position tells nothing yet: the request that comes first now is not lost."""
    crawl.killed(InTurn, stop="here one")
    crawl.run(InTurn, TURNED=True)
    assert items(crawl) == [("a", 1), ("a", 2)]


def test_a_lazy_start_waits_until_nothing_is_pending(crawl: Crawl) -> None:
    """Scrapy tells so whenever it gets no request, and here requests are delayed."""
    crawl.run(Fed)
    found = items(crawl)
    assert [one for one in found if len(one[0]) == 3] == [("abc", 0), ("cba", 0)]
    # In the next run every request is skipped.
    assert crawl.run(Fed, before=without_heartbeat).requested == []
    assert items(crawl) == found


@pytest.mark.usefixtures("engine")
def test_items_that_come_after_the_end_are_left_to_the_next_run(crawl: Crawl) -> None:
    for page in "ab":
        limited = crawl.run(LateItems, PAGE=page, CLOSESPIDER_PAGECOUNT=1)
        assert (limited.status, limited.finish_reason) == (0, "closespider_pagecount")
        assert "Traceback" not in limited.log
    crawl.run(LateItems, PAGE="c")
    late = [("", number) for number in (1, 2, 3)]
    assert items(crawl) == [*late, ("a", 0), ("b", 0), ("c", 0)]


def test_outputs_that_begin_anew_are_asked_for_in_turn() -> None:
    """A loop of the engine may still be there that has come to the end of others."""

    async def outputs() -> Any:
        for number in (1, 2, 3):
            await asyncio.to_thread(int)
            yield number

    async def asked_at_once() -> list[int]:
        access = EngineAccess.__new__(EngineAccess)
        access._engine = SimpleNamespace(spider=None)
        access.go_through(outputs())
        asked = [anext(access._engine._start) for _ in range(3)]
        found: list[int] = await asyncio.gather(*asked)
        return found

    assert asyncio.run(asked_at_once()) == [1, 2, 3]
