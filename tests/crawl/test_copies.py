"""Values that a middleware sets anew in each process do not make children differ."""

from __future__ import annotations

from collections import Counter

import pytest
from spiders.copies import CHILDREN, MIDDLEWARES, Copies, Fails, count_everything
from support.crawl import Crawl
from support.engines import on_both_engines
from support.site import Answer, Pages, Site

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("feed")]

IN_MEMORY = 1
"""The child whose values can change; it counts with its page."""


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
    first = site.count["/"]
    assert first == 1 + CHILDREN
    assert crawl.run(Copies).finish_reason == "finished"
    assert site.count["/"] == first + 1 + IN_MEMORY
    found = Counter(item["page"] for item in crawl.items())
    assert found == Counter(["page", -1, *range(6), 100])


def test_control_they_do_if_values_of_middlewares_count(
    crawl: Crawl, site: Site
) -> None:
    crawl.killed(Copies, stop="here children", before=count_everything)
    first = site.count["/"]
    crawl.run(Copies, before=count_everything)
    assert site.count["/"] == first + 1 + CHILDREN


@on_both_engines
def test_a_failed_request_is_known_when_it_succeeds(crawl: Crawl, site: Site) -> None:
    site.pages = {"/": [Answer("no", 500), "page"]}
    crawl.run(Fails)
    last = crawl.run(Fails, BLOOMDUPE_RETRY_FAILED=True)
    assert site.count["/"] == 2
    assert last.stats["bloomdupe/failed"] == 0
