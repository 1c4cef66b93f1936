"""Crawls with a DUPEFILTER_CLASS that is not ours, killed and run again."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.page_server import page_server
from support.small_site import JOB, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import asyncio, os, signal
import scrapy
from scrapy import Request
from bloomdupe import BloomDupeFilter


class Mine(BloomDupeFilter):
    def request_seen(self, request):
        return not request.meta.get("again") and super().request_seen(request)


class Tree(scrapy.Spider):
    # Each page of a tree is linked once, so it needs no filter.
    name = "tree"
    pages = 0

    async def start(self):
        yield Request(self.start_urls[0] + "0", dont_filter=True)

    async def parse(self, response):
        number = int(response.url.rpartition("/")[2])
        yield {"page": number}
        for child in (2 * number + 1, 2 * number + 2):
            if child < 15:
                yield response.follow(f"/{child}")
        await asyncio.sleep(0.2)  # meanwhile they are done, and in a checkpoint
        self.pages += 1
        if self.pages == self.settings.getint("KILL_AT"):
            os.kill(os.getpid(), signal.SIGKILL)
"""
PAGES = {f"/{number}": "x" for number in range(15)}
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
OPTIONS = [JOB, FEED, "BLOOMDUPE_CHECKPOINT_INTERVAL=0.05"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES) as (base, requested):
        yield Site(tmp_path, base, requested)


def pages(site: Site) -> Counter[int]:
    lines = (site.folder / "items.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["page"] for line in lines)


@pytest.mark.parametrize(
    "name", ["scrapy.dupefilters.BaseDupeFilter", "spiders.Mine"], ids=["none", "own"]
)
def test_what_a_page_under_way_has_yielded_comes_once(site: Site, name: str) -> None:
    options = [*OPTIONS, f"DUPEFILTER_CLASS={name}"]
    for kill_at in (1, 3):
        process = site.start("Tree", *options, f"KILL_AT={kill_at}")
        _, log = process.communicate(timeout=60)
        assert process.returncode == -9
        assert f"DUPEFILTER_CLASS is {name}, which keeps its marks apart" in log
    stats = site.crawl("Tree", *options)
    assert stats["finish_reason"] == "finished"
    assert pages(site) == Counter(range(15))
    # A finished job stays finished.
    site.take()
    site.crawl("Tree", *options)
    assert site.take() == []
    assert pages(site) == Counter(range(15))
