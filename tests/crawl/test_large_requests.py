"""Large requests in real crawls: pending requests are on disk, and not in memory."""

from __future__ import annotations

import pytest
from spiders.large_requests import Asynchronous, Large, Later, Slots
from support.crawl import Crawl
from support.site import Pages

pytestmark = pytest.mark.slow

MOST = 80
"""MB that a crawl may take beyond an empty crawl."""


@pytest.fixture
def pages() -> Pages:
    return lambda _: ""


@pytest.mark.parametrize("spider", [Large, Asynchronous, Later, Slots])
def test_large_requests_of_one_page_are_not_kept_in_memory(
    crawl: Crawl, spider: type[Large]
) -> None:
    crawl.settings |= {
        "BLOOMDUPE_CHECKPOINT_INTERVAL": None,
        "CONCURRENT_REQUESTS": 4,
    }
    stats = crawl.run(spider, CLOSESPIDER_PAGECOUNT=20).stats
    assert stats["bloomdupe/pending"] > 900
    assert stats["grown"] < MOST
    stats = crawl.run(spider, CLOSESPIDER_PAGECOUNT=100).stats
    assert stats["downloader/response_count"] >= 100
    assert stats["grown"] < MOST
