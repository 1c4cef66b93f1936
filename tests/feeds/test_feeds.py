"""Feeds in real crawls: every item in its file once, whenever the process dies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from spiders.feeds import (
    Shop,
)
from support.crawl import FEEDS
from support.shop import (
    ITEMS,
    feeds,
    read,
)

if TYPE_CHECKING:
    from support.crawl import Crawl

pytestmark = pytest.mark.slow

THEIRS = "scrapy.extensions.feedexport.FeedExporter"


def test_a_feed_exporter_that_is_switched_off_stays_off(crawl: Crawl) -> None:
    crawl.run(Shop, FEEDS=FEEDS, EXTENSIONS={THEIRS: None})
    assert not (crawl.folder / "items.jsonl").exists()


def test_without_a_job_feeds_are_as_in_scrapy(crawl: Crawl) -> None:
    run = crawl.run(Shop, FEEDS=feeds(), JOBDIR=None)
    for name in feeds():
        assert read(crawl.folder / name) == ITEMS
    assert "Not safe against crashes" not in run.log
