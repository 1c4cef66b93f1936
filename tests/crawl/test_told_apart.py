"""Requests that differ by a value only are told apart, whoever sets such a value."""

from __future__ import annotations

from typing import Any

import pytest
from spiders.told_apart import Accounts, Jars, Languages, other_jar
from support.crawl import Crawl
from support.site import Answer, Pages, Site

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("feed", "engine")]


@pytest.fixture
def pages() -> Pages:
    return {"/": "page"}


@pytest.mark.parametrize("spider", [Languages, Accounts])
def test_each_failed_request_is_retried(
    crawl: Crawl, site: Site, spider: type[Languages]
) -> None:
    site.pages = {"/": [*[Answer("no", 403)] * 3, "page"]}
    first = crawl.run(spider)
    assert first.stats["bloomdupe/failed"] == 3
    crawl.run(spider, BLOOMDUPE_RETRY_FAILED=True)
    assert sorted(item["page"] for item in crawl.items()) == ["de", "en", "fr"]


@pytest.mark.parametrize("copies", [False, True])
def test_a_child_with_the_value_of_the_middleware_is_not_lost(
    crawl: Crawl, copies: bool
) -> None:
    pool: dict[str, Any] = {
        "COPIES": copies,
        "DOWNLOADER_MIDDLEWARES": {"spiders.told_apart.Pool": 500},
    }
    crawl.killed(Jars, stop="here first", **pool)
    crawl.run(Jars, before=other_jar, **pool)
    assert sorted(item["page"] for item in crawl.items()) == [0, 1, 2]
