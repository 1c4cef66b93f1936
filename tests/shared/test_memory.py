"""The memory of a worker for its offers does not grow with the crawl."""

from __future__ import annotations

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler

from bloomdupe.crawl.engines.crawl_job import CrawlJob


@pytest.mark.parametrize(
    ("expected", "remembered"), [(1_000, 1_000), (10**10, 10_000_000)]
)
def test_a_worker_remembers_ten_million_at_most(expected: int, remembered: int) -> None:
    url = "redis://localhost:6379/0#crawl"
    settings = {"BLOOMDUPE_REDIS_URL": url, "BLOOMDUPE_EXPECTED_URLS": expected}
    job = CrawlJob.of(Spider("follow"), Crawler(Spider, settings).settings)
    assert job.recent().parameters.capacity == remembered
