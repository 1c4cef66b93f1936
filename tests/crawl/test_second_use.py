"""A start page is asked for once more, to do something else with it, as in Scrapy."""

from __future__ import annotations

from collections import Counter

import pytest
from scrapy import Spider
from spiders.second_use import (
    Again,
    Back,
    Decorated,
    Killed,
    LateStart,
    Login,
    Parts,
    Rules,
    Waits,
)
from support.crawl import Crawl
from support.judge import lines

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("feed")]


@pytest.fixture
def pages() -> dict[str, str]:
    return {
        "/": "<a href='/a'>a</a><a href='/b'>b</a><a href='/'>home</a>",
        "/a": "<a href='/'>home</a><a href='/b'>b</a>",
        "/b": "<a href='/'>home</a>",
        "/login": "-> /",
    }


def items(crawl: Crawl) -> Counter[str]:
    return Counter(item["page"] for item in crawl.items())


def check_as_stock(crawl: Crawl, spider: type[Spider]) -> None:
    """Compare the pages with those of stock Scrapy."""
    expected, pages = crawl.stock(spider)
    (crawl.folder / "items.jsonl").unlink()
    run = crawl.run(spider)
    assert run.finish_reason == "finished"
    assert expected
    assert lines(crawl.items()) == expected
    assert Counter(run.requested) == pages


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("spider", [Login, Again, Rules, Decorated, Parts])
def test_the_same_pages_are_fetched_as_by_scrapy(
    crawl: Crawl, spider: type[Spider]
) -> None:
    check_as_stock(crawl, spider)


def test_without_a_jobdir_the_same_pages_are_fetched(crawl: Crawl) -> None:
    del crawl.settings["JOBDIR"]
    check_as_stock(crawl, Login)


@pytest.mark.usefixtures("engine")
def test_a_second_use_is_known_after_a_kill(crawl: Crawl) -> None:
    crawl.killed(Killed, stop="here second is done")
    assert crawl.run(Killed).finish_reason == "finished"
    assert items(crawl) == {"second": 1}


def test_a_plain_link_back_is_a_duplicate(crawl: Crawl) -> None:
    run = crawl.run(Rules)
    assert Counter(run.requested)["/"] == 2  # once more for the rule, not for each link
    assert run.stats["dupefilter/filtered"] == 6


@pytest.mark.usefixtures("engine")
def test_a_link_back_is_a_duplicate(crawl: Crawl) -> None:
    run = crawl.run(Back)
    assert sorted(run.requested) == ["/", "/a", "/b"]
    assert items(crawl) == Counter(["", "a", "b"])


@pytest.mark.usefixtures("engine")
def test_a_second_use_may_come_before_start_has_yielded_its_page(crawl: Crawl) -> None:
    crawl.killed(LateStart, stop="here asked")
    assert crawl.run(LateStart, LATE=True).finish_reason == "finished"
    assert items(crawl) == {"private": 1}


@pytest.mark.usefixtures("engine")
def test_a_start_page_that_scrapy_remembers_has_no_second_use(crawl: Crawl) -> None:
    assert crawl.run(Waits).finish_reason == "finished"
    assert items(crawl) == {"": 1, "child": 1}
