"""A start page is asked for once more, to do something else with it, as in Scrapy."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from spiders.second_use import Again, Killed, Login, Rules
from support.engines import DISK, MEMORY

if TYPE_CHECKING:
    from scrapy import Spider
    from support.crawl import Crawl
    from support.engines import Memory

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


@pytest.mark.parametrize(
    ("spider", "where"),
    [*((spider, DISK) for spider in (Login, Again, Rules)), (Login, MEMORY)],
)
def test_what_scrapy_fetches_is_fetched(
    crawl: Crawl, spider: type[Spider], where: Memory
) -> None:
    """Stock Scrapy says what there is to find."""
    del crawl.settings["JOBDIR"]
    stock = crawl.run(spider, ADDONS={})
    expected = items(crawl)
    assert expected
    (crawl.folder / "items.jsonl").unlink()
    run = crawl.run(spider, **where.settings)
    assert run.finish_reason == "finished"
    assert items(crawl) == expected
    assert Counter(run.requested) == Counter(stock.requested)


@pytest.mark.usefixtures("engine")
def test_a_second_use_is_known_after_a_kill(crawl: Crawl) -> None:
    crawl.killed(Killed, stop="here second is done")
    assert crawl.run(Killed).finish_reason == "finished"
    assert items(crawl) == {"second": 1}


def test_a_plain_link_back_is_a_duplicate(crawl: Crawl) -> None:
    run = crawl.run(Rules)
    assert Counter(run.requested)["/"] == 2  # once more for the rule, not for each link
    assert run.stats["dupefilter/filtered"] == 6
