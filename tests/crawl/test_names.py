"""Outputs are known by their names, where two mechanisms meet."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from spiders.names import (
    AsksEarly,
    Beside,
    Captcha,
    Carried,
    OnceMore,
    ReadsQueue,
    Refused,
    WaitsForRetry,
    WaitsInMemory,
)
from support.crawl import Crawl
from support.site import Answer, Page, Pages, Site

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("feed")]

LATER = Answer("later", 503)
MOVED = Answer("", 302, {"Location": "/elsewhere"})
RETRY: dict[str, Any] = {"RETRY_ENABLED": True}


@pytest.fixture
def pages() -> Pages:
    return dict.fromkeys(("/", "/a", "/elsewhere"), "page")


def parts(crawl: Crawl) -> Counter[str]:
    return Counter(item["part"] for item in crawl.items())


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "answers",
    [[LATER], [LATER, LATER], [MOVED], ["captcha"], [LATER, "captcha"]],
    ids=["retry", "retries", "redirect", "callback", "both"],
)
def test_a_retry_has_the_name_of_its_page(
    crawl: Crawl, site: Site, answers: list[Page]
) -> None:
    site.pages = {**site.pages, "/": ["page", *answers, "page"]}  # type: ignore[dict-item]
    crawl.killed(Refused, stop="here child is done", **RETRY)
    crawl.run(Refused, **RETRY)
    assert parts(crawl) == Counter(["child", "page"])


@pytest.mark.usefixtures("engine")
def test_a_page_requested_again_has_a_name_of_its_own(crawl: Crawl, site: Site) -> None:
    site.pages = {**site.pages, "/": ["page", "captcha", "captcha", "page"]}  # type: ignore[dict-item]
    crawl.killed(Refused, stop="here child is done", **RETRY)
    crawl.run(Refused, ONCE_MORE=True)
    assert parts(crawl) == Counter(["child", "page"])


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("first", ["child", "retry"])
def test_a_child_beside_the_retry_is_a_different_request(
    crawl: Crawl, first: str
) -> None:
    crawl.run(Beside, FIRST=first, **RETRY)
    assert parts(crawl) == Counter(child=2)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"WAITS": True},
    ],
    ids=[
        "goes on",
        "waits",
    ],
)
def test_a_page_and_its_second_time_share_no_child(
    crawl: Crawl, settings: dict[str, Any]
) -> None:
    """They ask for the same page, in the second run in another order."""
    crawl.killed(OnceMore, stop="here asked", ORDER=1)
    run = crawl.run(OnceMore, ORDER=2, **settings)
    assert run.finish_reason == "finished"
    assert parts(crawl) == Counter(token=2)


@pytest.mark.usefixtures("engine")
def test_a_page_and_its_retry_are_never_both_pending(crawl: Crawl, site: Site) -> None:
    site.pages = {**site.pages, "/": ["page", "captcha", "page"]}  # type: ignore[dict-item]
    crawl.killed(Captcha, stop="here child is done")
    crawl.killed(Captcha, stop="here captcha is held")
    assert crawl.run(Captcha).requested.count("/") == 1
    assert parts(crawl) == Counter(["child", "page"])


@pytest.mark.usefixtures("engine")
def test_a_new_page_and_its_retry_are_never_both_pending(
    crawl: Crawl, site: Site
) -> None:
    site.pages = {**site.pages, "/": ["captcha", "page"]}  # type: ignore[dict-item]
    crawl.killed(Captcha, stop="here captcha is held")
    assert crawl.run(Captcha).requested.count("/") == 1
    assert parts(crawl) == Counter(["child", "page"])


@pytest.mark.usefixtures("engine")
def test_a_page_in_memory_is_known_whichever_page_leads_to_it(crawl: Crawl) -> None:
    crawl.killed(Carried, stop="here child is done", BY="/")
    run = crawl.run(Carried, BY="/a")
    assert run.requested.count("/elsewhere") == 1
    assert parts(crawl) == Counter(["child", "page"])


@pytest.mark.usefixtures("engine")
def test_a_callback_may_wait_for_its_retry(crawl: Crawl) -> None:
    assert crawl.run(WaitsForRetry, **RETRY).finish_reason == "finished"
    assert parts(crawl) == Counter(["child", "child", "page", "page"])


@pytest.mark.parametrize("engine", ["memory", "disk"], indirect=True)
@pytest.mark.usefixtures("engine")
def test_a_callback_of_a_child_in_memory_may_wait_for_its_retry(crawl: Crawl) -> None:
    assert crawl.run(WaitsInMemory, **RETRY).finish_reason == "finished"
    assert parts(crawl) == Counter(["page"])


def test_a_child_of_a_signal_belongs_to_the_page_of_the_signal(crawl: Crawl) -> None:
    crawl.killed(AsksEarly, stop="here child is done")
    assert not crawl.items()
    assert crawl.run(AsksEarly).finish_reason == "finished"
    assert parts(crawl) == Counter(["child", "page"])


@pytest.mark.usefixtures("engine")
def test_items_of_start_are_known_by_their_content(crawl: Crawl) -> None:
    crawl.killed(ReadsQueue, stop="here read", FIRST_MESSAGE=0)
    crawl.run(ReadsQueue, FIRST_MESSAGE=0)
    assert parts(crawl) == Counter("0012")
    crawl.run(ReadsQueue, FIRST_MESSAGE=2)
    assert parts(crawl) == Counter("0012234")


def test_a_new_round_has_its_own_items(crawl: Crawl) -> None:
    crawl.run(ReadsQueue)
    for _ in range(2):
        crawl.run(ReadsQueue, BLOOMDUPE_START_REQUESTS="again")
    assert parts(crawl) == Counter("0012" * 3)
