"""Values that a middleware sets anew in each process do not make children differ."""

from __future__ import annotations

from collections import Counter

import pytest
from spiders.copies import CHILDREN, MIDDLEWARES, Copies, Fails
from support.crawl import Crawl
from support.engines import on_both_engines
from support.site import Answer, Pages, Site

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("feed")]


@pytest.fixture
def pages() -> Pages:
    return {"/": "page"}


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.settings |= MIDDLEWARES
    return crawl


@pytest.mark.usefixtures("engine")
def test_children_with_copied_values_do_not_come_twice(
    crawl: Crawl, site: Site
) -> None:
    crawl.killed(Copies, stop="here children")
    assert site.count["/"] == 1 + CHILDREN
    assert crawl.run(Copies).finish_reason == "finished"
    found = Counter(item["page"] for item in crawl.items())
    assert found == Counter(["page", -1, *range(6), 100])


@on_both_engines
def test_a_failed_request_is_known_when_it_succeeds(crawl: Crawl, site: Site) -> None:
    site.pages = {"/": [Answer("no", 500), "page"]}
    crawl.run(Fails)
    last = crawl.run(Fails, BLOOMDUPE_RETRY_FAILED=True)
    assert site.count["/"] == 2
    assert last.stats["bloomdupe/failed"] == 0
