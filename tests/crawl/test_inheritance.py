"""A page that a kill has interrupted, and that answers otherwise when asked again.

It is redirected, or to be tried later, or asks for a captcha. Its requests and items
from before the kill must not come twice, whichever request yields them again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from spiders.inheritance import (
    Banned,
    BannedAtOnce,
    Closing,
    ClosingInMemory,
    ClosingOrBanned,
    ClosingOrRetried,
    Linked,
    Parent,
    Polling,
)
from support.crawl import Crawl
from support.engines import on_both_engines
from support.site import Answer, Page, Site

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("feed")]


def on_redis(test: Any) -> Any:
    """Let a test run on Redis only."""
    redis = [pytest.param("redis", marks=pytest.mark.slow)]
    only = pytest.mark.parametrize("engine", redis, indirect=True)
    return pytest.mark.usefixtures("engine")(only(test))


LATER = Answer("later", 503)
MOVED = Answer("", 302, {"Location": "/elsewhere"})
CAPTCHA = "captcha"
FIRST = "first"
GONE = Answer("page", 404)
RETRY: dict[str, Any] = {"RETRY_ENABLED": True}


@pytest.fixture
def pages() -> dict[str, Page]:
    paths = ("/", "/hub", "/a", "/b", "/c", "/d", "/marked", "/elsewhere")
    return dict.fromkeys(paths, "page")


def answers(site: Site, *pages: Page) -> None:
    """Let the start page answer so, one after the other, and then as a page."""
    site.pages = {**site.pages, "/": [*pages, "page"]}  # type: ignore[dict-item]


def items(crawl: Crawl) -> Counter[str]:
    return Counter(item["page"] for item in crawl.items())


@pytest.mark.parametrize(
    ("second", "settings"),
    [
        (LATER, RETRY),
        (LATER, {"BLOOMDUPE_RETRY_BACKOFF": [0.2, 2, 1], **RETRY}),
        (LATER, {}),  # the errback asks for it once more
        (MOVED, {}),
        (CAPTCHA, {}),
        (CAPTCHA, {"BY_HELPER": True, **RETRY}),
    ],
    ids=["retry", "later", "errback", "redirect", "captcha", "helper"],
)
def test_children_do_not_come_twice(
    crawl: Crawl, site: Site, second: Page, settings: dict[str, Any]
) -> None:
    answers(site, "page", second)
    crawl.settings |= settings
    crawl.killed(Parent, stop="here children are done")
    assert site.count["/marked"] == 1
    assert crawl.run(Parent).finish_reason == "finished"
    assert site.count["/marked"] == 1
    assert items(crawl) == Counter(["early", "late", "a", "b", "c", "marked", "d"])


@pytest.mark.parametrize("second", [LATER, MOVED], ids=["retry", "redirect"])
def test_children_of_a_page_that_a_link_leads_to_do_not_come_twice(
    crawl: Crawl, site: Site, second: Page
) -> None:
    answers(site, "page", second)
    crawl.killed(Linked, stop="here children are done", **RETRY)
    assert crawl.run(Linked, **RETRY).finish_reason == "finished"
    assert site.count["/marked"] == 1
    assert items(crawl) == Counter(["early", "late", "a", "b", "c", "marked", "d"])


@on_both_engines
@pytest.mark.parametrize(
    ("answer", "child"), [(LATER, "/"), (MOVED, "/elsewhere"), ("page", "/")]
)
def test_a_retry_or_redirect_is_no_child(
    crawl: Crawl, site: Site, answer: Page, child: str
) -> None:
    """Otherwise it would be dropped, and the output of the page would be lost."""
    crawl.settings |= {"CHILD": child, **RETRY}
    crawl.killed(Polling, stop="here children are done")
    answers(site, *["page"] * site.count["/"], answer)
    assert crawl.run(Polling).finish_reason == "finished"
    assert items(crawl) == {"0": 1, "1": 1}


# Callbacks that close the crawl


@pytest.mark.parametrize("first", [GONE, CAPTCHA], ids=["error", "captcha"])
def test_a_page_that_closes_the_crawl_before_it_yields_is_tried_again(
    crawl: Crawl, site: Site, first: Page
) -> None:
    answers(site, first, first)
    for _ in range(2):
        assert crawl.run(BannedAtOnce).finish_reason == "banned"
        assert not crawl.items()
    assert crawl.run(BannedAtOnce).finish_reason == "finished"
    assert items(crawl) == Counter("012")


def test_a_page_that_closes_the_crawl_later_is_done_and_has_failed(
    crawl: Crawl,
) -> None:
    assert crawl.run(Closing).finish_reason == "enough"
    assert items(crawl) == Counter("0123")
    run = crawl.run(Closing)
    assert (run.finish_reason, run.requested) == ("finished", [])
    assert run.stats["bloomdupe/failed"] == 1
    run = crawl.run(Closing, BLOOMDUPE_RETRY_FAILED="callback")
    assert run.requested == ["/", "/d"]
    assert items(crawl) == Counter("01230123") + Counter("45d")


def test_a_request_in_memory_that_closes_the_crawl_later_is_done(crawl: Crawl) -> None:
    assert crawl.run(ClosingInMemory).finish_reason == "enough"
    assert crawl.run(ClosingInMemory).finish_reason == "finished"
    assert items(crawl) == Counter("0123")


# On Redis the items before the end are counted by answer


@on_redis
@pytest.mark.parametrize("second", [LATER, MOVED], ids=["retry", "redirect"])
def test_items_before_the_end_do_not_come_twice(
    crawl: Crawl, site: Site, second: Page
) -> None:
    answers(site, "page", second)
    assert crawl.run(Closing, **RETRY).finish_reason == "enough"
    assert crawl.run(Closing, **RETRY).finish_reason == "finished"
    assert items(crawl) == Counter("012345d")


@on_redis
def test_items_of_a_start_request_in_memory_do_not_come_twice(crawl: Crawl) -> None:
    assert crawl.run(ClosingInMemory).finish_reason == "enough"
    assert crawl.run(ClosingInMemory).finish_reason == "finished"
    assert items(crawl) == Counter("012345d")


@on_redis
@pytest.mark.parametrize(
    ("first", "item"),
    [(GONE, "failed"), (CAPTCHA, "captcha")],
    ids=["error", "captcha"],
)
def test_the_page_loses_nothing_for_an_answer_in_its_place(
    crawl: Crawl, site: Site, first: Page, item: str
) -> None:
    answers(site, first)
    crawl.run(Banned)
    assert items(crawl) == Counter([item])
    assert crawl.run(Banned).finish_reason == "finished"
    assert items(crawl) == Counter([item, "0", "1", "2"])


@on_redis
@pytest.mark.parametrize("first", [GONE, CAPTCHA], ids=["error", "captcha"])
def test_the_same_answer_once_more_brings_nothing_new(
    crawl: Crawl, site: Site, first: Page
) -> None:
    answers(site, first, first)
    for _ in range(2):
        crawl.run(Banned)
        assert items(crawl).total() == 1
    crawl.run(Banned)
    assert items(crawl).total() == 4


@on_redis
def test_a_page_is_remembered_across_other_answers(crawl: Crawl, site: Site) -> None:
    answers(site, "page", CAPTCHA)
    crawl.run(Closing)
    assert items(crawl) == Counter("0123")
    assert crawl.run(ClosingOrBanned).finish_reason == "banned"
    assert crawl.run(ClosingOrBanned).finish_reason == "finished"
    assert items(crawl) == Counter([*"012345d", "captcha"])


@on_redis
@pytest.mark.parametrize("second", [CAPTCHA, GONE], ids=["captcha", "failure"])
def test_an_heir_leaves_items_out_though_its_parent_has_yielded(
    crawl: Crawl, site: Site, second: Page
) -> None:
    answers(site, "page", second)
    crawl.run(Closing)
    crawl.run(ClosingOrRetried)
    crawl.run(ClosingOrRetried, BLOOMDUPE_RETRY_FAILED=True)
    assert site.count["/"] == 3
    assert items(crawl) == Counter([*"012345d", *[CAPTCHA] * (second == CAPTCHA)])


@on_redis
def test_a_different_page_is_processed_as_a_whole(crawl: Crawl, site: Site) -> None:
    answers(site, FIRST)
    crawl.run(Banned)
    assert items(crawl) == Counter("01")
    crawl.run(Banned)
    assert items(crawl) == Counter("00112")
