"""A shop of 21 pages, crawled with a checkpoint after each page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.shop import PAGES

if TYPE_CHECKING:
    from support.crawl import Crawl
    from support.site import Pages


@pytest.fixture
def pages() -> Pages:
    return PAGES


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.settings |= {
        "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.001,
        "CONCURRENT_REQUESTS": 1,
    }
    return crawl
