"""The scheduler on loops other than asyncio's reactor: killed, and run again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from page_server import page_server
from scrapy.settings import Settings
from small_site import PAGES, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import sys
import scrapy


class Loops(scrapy.Spider):
    name = "loops"

    async def start(self):
        async for request in super().start():
            yield request

    async def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)

    def closed(self, reason):
        reactor = sys.modules.get("twisted.internet.reactor")
        self.crawler.stats.set_value("reactor", type(reactor).__name__)
"""
REACTORS = [
    ("TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor", "SelectReactor"),
    pytest.param(
        "TWISTED_REACTOR_ENABLED=0",
        "NoneType",
        marks=pytest.mark.skipif(
            "TWISTED_REACTOR_ENABLED" not in Settings(),
            reason="this Scrapy cannot run without a reactor",
        ),
    ),
]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES) as (base, requested):
        yield Site(folder, base, requested)


@pytest.mark.parametrize(("setting", "reactor"), REACTORS)
def test_killed_and_run_again_on(site: Site, setting: str, reactor: str) -> None:
    options = [setting, "JOBDIR=job", "BLOOMDUPE_CHECKPOINT_INTERVAL=0.05"]
    process = site.start("Loops", *options, "DOWNLOAD_DELAY=0.5")
    deadline = time.monotonic() + 30
    while len(site.requested) < 5 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    _, log = process.communicate()
    assert process.returncode == -9, log
    first = site.take()
    stats = site.crawl("Loops", *options)
    assert stats["finish_reason"] == "finished"
    assert "Traceback" not in stats["log"]
    assert "the last run was killed" in stats["log"]
    assert stats["reactor"] == reactor
    assert stats["bloomdupe/checkpoints"] > 1
    second = site.take()
    assert set(first) | set(second) == set(PAGES)
    assert len(second) < len(PAGES), "nothing of the first run counted"
