"""Children are told from their parent, and a lost request leaves nothing behind."""

from __future__ import annotations

from collections import Counter

import pytest
from spiders.same_work import (
    SHOPS,
    AsksInline,
    AsksInlineAtOnce,
    LambdaStart,
    Messages,
    Shops,
    WaitsOnce,
)
from support.crawl import Crawl
from support.engines import on_both_engines

from bloomdupe import BloomFilter

pytestmark = pytest.mark.usefixtures("feed")


def parts(crawl: Crawl) -> Counter[str]:
    return Counter(item["part"] for item in crawl.items())


def records_of_children(crawl: Crawl) -> list[str]:
    with BloomFilter.open(crawl.store, readonly=True) as seen:
        record = seen.record("crawl")
    assert record is not None
    return [name for name in record["blobs"] if name.startswith("c")]


@on_both_engines
@pytest.mark.parametrize("page", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_request_for_the_page_is_not_taken_for_the_page(
    crawl: Crawl, page: int
) -> None:
    for order in (1, 2):
        crawl.killed(Shops, stop=f"here shop {page}", ORDER=order)
    assert crawl.run(Shops, ORDER=3).finish_reason == "finished"
    assert parts(crawl) == Counter([*SHOPS, *["token"] * 7])


@on_both_engines
def test_a_start_page_that_was_lost_is_fetched_again(crawl: Crawl) -> None:
    """It has the same name, so its children are known."""
    crawl.killed(LambdaStart, stop="here before c")
    assert crawl.run(LambdaStart).finish_reason == "finished"
    assert parts(crawl) == Counter(["", *"abcdef"])


def test_children_that_nothing_yields_again_leave_no_record(crawl: Crawl) -> None:
    crawl.killed(LambdaStart, stop="here before c")
    crawl.run(LambdaStart, BLOOMDUPE_START_REQUESTS="always")
    assert not records_of_children(crawl)


def test_children_of_lost_requests_leave_no_record(crawl: Crawl) -> None:
    for page in "bd":
        crawl.killed(LambdaStart, stop=f"here before {page}")
    crawl.run(LambdaStart)
    assert not records_of_children(crawl)


def test_each_run_reads_its_own_messages(crawl: Crawl) -> None:
    crawl.settings["BLOOMDUPE_START_REQUESTS"] = "always"
    crawl.killed(Messages, stop="here read", FIRST_MESSAGE=0)
    crawl.run(Messages, FIRST_MESSAGE=6)
    assert parts(crawl) == Counter(map(str, range(12)))


@on_both_engines
@pytest.mark.parametrize("spider", [AsksInline, AsksInlineAtOnce])
def test_a_callback_may_wait_for_its_own_page(
    crawl: Crawl, spider: type[AsksInline]
) -> None:
    assert crawl.run(spider).finish_reason == "finished"
    assert len(crawl.items()) == 1


@on_both_engines
def test_a_request_that_was_let_go_before_a_kill_does_not_come_again(
    crawl: Crawl,
) -> None:
    """In the next run, it is held back until its page ends."""
    crawl.killed(WaitsOnce, stop="here again is asked for")
    assert crawl.run(WaitsOnce).finish_reason == "finished"
    assert parts(crawl) == Counter(["first", "again"])
