"""Start requests that are other ones in each run are known by their places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from spiders.starting import Ended, InTurn, PlainOrNot, Stamped
from support.crawl import FEEDS

if TYPE_CHECKING:
    from support.crawl import Crawl
    from support.site import Pages

pytestmark = pytest.mark.slow


@pytest.fixture
def pages() -> Pages:
    return dict.fromkeys(("/a", "/b", "/c"), "")


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.settings["FEEDS"] = FEEDS
    return crawl


def items(crawl: Crawl) -> list[tuple[str, int]]:
    return sorted((item["page"], item["n"]) for item in crawl.items())


def test_a_finished_job_knows_them(crawl: Crawl) -> None:
    assert sorted(crawl.run(Stamped).requested) == ["/a", "/a", "/b"]
    run = crawl.run(Stamped)
    assert run.stats["bloomdupe/start_requests_skipped"] == 3
    assert run.requested == []


def test_more_for_the_same_page_are_new_work(crawl: Crawl) -> None:
    crawl.run(Stamped)
    assert sorted(crawl.run(Stamped, MORE=True).requested) == ["/a", "/c"]
    assert crawl.run(Stamped, MORE=True).requested == []


@pytest.mark.parametrize("first", [False, True])
def test_the_same_page_with_and_without_more_to_it(crawl: Crawl, first: bool) -> None:
    assert crawl.run(PlainOrNot, PLAIN=first).requested == ["/a"]
    assert crawl.run(PlainOrNot, PLAIN=not first).requested == []


def test_a_killed_job_knows_them_once_start_has_yielded_all(crawl: Crawl) -> None:
    crawl.killed(Ended, stop="here all")
    run = crawl.run(Ended)
    assert run.stats["bloomdupe/start_requests_skipped"] == 3
    assert items(crawl) == [("a", 0), ("a", 0), ("b", 0)]


def test_until_then_they_may_come_in_another_order(crawl: Crawl) -> None:
    """A place says nothing yet: the one that comes first now is not lost."""
    crawl.killed(InTurn, stop="here one")
    crawl.run(InTurn, TURNED=True)
    assert items(crawl) == [("a", 1), ("a", 2)]


def test_a_new_round_asks_for_all_of_them(crawl: Crawl) -> None:
    crawl.run(Stamped)
    run = crawl.run(Stamped, BLOOMDUPE_START_REQUESTS="again")
    assert sorted(run.requested) == ["/a", "/a", "/b"]
    assert crawl.run(Stamped).requested == []
