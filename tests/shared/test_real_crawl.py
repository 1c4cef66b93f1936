"""Four workers on a real site of 16,372 pages, judged by nginx's log."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from crew import Crew
from support.real_sites import SITES, nginx
from support.redis_server import RedisServer
from support.shared_data import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

WORKERS = 4
LONG = 1_200
"""Seconds; only what hangs gets there."""

SPIDERS = (
    f"""
import sys
sys.path.append({str(REPOSITORY)!r})  # where crawler is
"""
    + """
from zlib import crc32

import scrapy
from scrapy import Request

from bloomdupe import new_links
from crawler.links import extract_links


class Real(scrapy.Spider):
    # All pages of a site, as if they were on sixteen hosts.
    name = "real"
    handle_httpstatus_list = [404]

    async def start(self):
        yield self.request(self.settings["START"])

    def request(self, url):
        return Request(url, meta={"download_slot": str(crc32(url.encode()) % 16)})

    def parse(self, response):
        yield {"page": response.url}
        if isinstance(response, scrapy.http.HtmlResponse) and response.status == 200:
            for url in new_links(self, extract_links(response)):
                if url.startswith(self.settings["START"].rpartition("/")[0]):
                    yield self.request(url)
"""
)
SETTINGS = (
    'FEEDS={"items.jsonl": {"format": "jsonlines"}}',
    "METAREFRESH_ENABLED=0",
    "RETRY_ENABLED=0",
    "BLOOMDUPE_EXPECTED_URLS=100000",
)


def test_every_page_of_a_real_site_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    with RedisServer(tmp_path / "redis") as redis, nginx("fpdocs") as (url, log):
        start = url.replace("index.html", "fpctoc.html")
        crew = Crew(tmp_path, "", redis, [], *SETTINGS, f"START={start}")
        try:
            for _ in range(WORKERS):
                crew.hire("Real", "BLOOMDUPE_EXPECTED_URLS=100000")
            for worker in crew.workers:
                worker.process.wait(LONG)
                worker.end()
        finally:
            crew.dismiss()
        capfd.readouterr()
        oracle = SITES / "fpdocs.oracle.txt.xz"
        judge: list[str | Path] = [sys.executable, SITES / "compare.py", oracle, log]
        assert subprocess.run(judge, check=False).returncode == 0
        verdict = capfd.readouterr().out
        pages = [worker.pages for worker in crew.workers]
        items = crew.items()
    whole = "oracle 16372 requested 16372 lost 0 extra 0 refetched 0"
    assert whole in verdict
    assert sum(pages) == 16_372
    assert min(pages) > 0
    assert items.total() == 16_372
    assert set(Counter(items.values())) == {1}
