"""Crawls with a checkpoint after each page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.crawl import Crawl


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.settings |= {
        "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.001,
        "CONCURRENT_REQUESTS": 1,
    }
    return crawl
