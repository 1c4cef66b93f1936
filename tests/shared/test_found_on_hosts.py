"""A page that is found from several hosts: it is one page, wherever it was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from crew import DEADLINE, Crew
from support.page_server import page_server
from support.redis_server import RedisServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import scrapy


class Hosts(scrapy.Spider):
    name = "hosts"

    def parse(self, response):
        yield {"page": response.url}
        for href in response.css("a::attr(href)").getall():
            # As many spiders do: what Scrapy has written there comes along.
            meta = response.meta if "meta" in response.url else None
            yield response.follow(href, meta=meta, priority=9 * ("links" in href))
"""
SHARED = (
    "CONCURRENT_REQUESTS=1",
    # With seven, the two hosts lie in different ones.
    "BLOOMDUPE_REDIS_PARTITIONS=7",
)
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
PAGES = 20


def test_redirects_and_meta_that_lead_to_another_host(tmp_path: Path) -> None:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    pages: dict[str, str] = {}
    with (
        page_server(pages) as (base, requested),
        RedisServer(tmp_path / "redis") as redis,
    ):
        there = base.replace("127.0.0.1", "localhost")
        links = ["/meta", there + "/links"]
        for number in range(PAGES):
            page = f"{there}/there{number}"
            pages[f"/moved{number}"] = f"-> {page}"
            pages[f"/there{number}"] = "more"
            links.append(f"/moved{number}")
        direct = [f"<a href='{there}/there{number}'>x</a>" for number in range(PAGES)]
        pages["/0"] = "".join(f"<a href='{link}'>x</a>" for link in links)
        pages["/meta"] = pages["/links"] = "".join(direct)
        crew = Crew(tmp_path, base, redis, requested, FEED)
        try:
            expected, asked = crew.stock("Hosts")
            # The second one has not seen what the first one has found.
            crew.hire("Hosts", *SHARED, "CLOSESPIDER_PAGECOUNT=2").process.wait(
                DEADLINE
            )
            crew.hire("Hosts", *SHARED).end()
        finally:
            crew.dismiss()
        assert crew.items() == expected
        assert crew.take() == asked
