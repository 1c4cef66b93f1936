"""A start page is asked for once more, to do something else with it, as in Scrapy."""

from __future__ import annotations

from collections import Counter

import pytest
from scrapy import Spider
from spiders.second_use import Again, Login
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


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("spider", [Login, Again])
def test_the_same_pages_are_fetched_as_by_scrapy(
    crawl: Crawl, spider: type[Spider]
) -> None:
    expected, pages = crawl.stock(spider)
    (crawl.folder / "items.jsonl").unlink()
    run = crawl.run(spider)
    assert run.finish_reason == "finished"
    assert expected
    assert lines(crawl.items()) == expected
    assert Counter(run.requested) == pages
