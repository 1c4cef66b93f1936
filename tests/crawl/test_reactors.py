"""The scheduler on loops other than asyncio's reactor: killed, and run again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from scrapy.settings import Settings
from support.page_server import page_server
from support.small_site import PAGES, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import os, signal, sys
import scrapy
from scrapy.dupefilters import RFPDupeFilter


class CtrlC(RFPDupeFilter):
    def open(self):
        if not os.path.exists("interrupted"):
            open("interrupted", "w").close()
            if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                # As a shell leaves it to what it starts in the background.
                signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.raise_signal(signal.SIGINT)


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


def test_ctrl_c_while_the_crawl_is_opened_is_no_success(site: Site) -> None:
    """Scrapy listens to it only later, and says nothing of it on such a reactor."""
    reactor = "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor"
    options = ["JOBDIR=job", reactor, "DUPEFILTER_CLASS=spiders.CtrlC"]
    options += ["EXIT_AS_SCRAPY_DOES=1"]
    process = site.start("Loops", *options)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Ctrl-C came while the crawl was opened; run the same command again" in log
    assert site.take() == []
    assert site.crawl("Loops", *options)["finish_reason"] == "finished"
    assert set(site.take()) == set(PAGES)
