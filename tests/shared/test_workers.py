"""Several workers on one crawl: real processes, a real Redis, beside stock Scrapy."""

from __future__ import annotations

import re

import pytest
from scrapy import Spider
from spiders.workers import All, Other
from support.crawl import Crawl
from support.site import Pages, graph

pytestmark = pytest.mark.slow

SIZE = 150


@pytest.fixture
def pages() -> Pages:
    return graph(SIZE)


REFUSED: list[tuple[type[Spider], str, str]] = [
    (All, "JOBDIR=job", "JOBDIR and BLOOMDUPE_REDIS_URL are both set"),
    (All, "BLOOMDUPE_EXACT=1", "BLOOMDUPE_EXACT: .* was made with exact = "),
    (Other, "LOG_ENABLED=1", "was made with spider = 'all'"),
    (All, "BLOOMDUPE_REDIS_URL=redis://localhost:1/0#a", "no Redis answers there"),
    (All, "BLOOMDUPE_REDIS_URL=redis://localhost:1", "must end in the name of the"),
    (All, 'FEEDS={"a.csv": {"format": "csv"}}', r"but feeds = \['a.csv'\] is asked"),
]


def test_an_impossible_crawl_is_refused(crawl: Crawl) -> None:
    crawl.finish(All)
    items = crawl.items()
    for spider, setting, words in REFUSED:
        name, _, value = setting.partition("=")
        run = crawl.refused(spider, **{name: value})
        assert re.search(words, run.log), run.log
    assert crawl.items() == items
