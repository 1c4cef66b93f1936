"""A start page is asked for once more, to do something else with it, as in Scrapy."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from page_server import page_server
from small_site import JOB, Site

from bloomdupe import BloomFilter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import asyncio, os, signal
import scrapy
from scrapy import FormRequest, Request
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class Login(scrapy.Spider):
    # The page behind the form is the start page, with one callback for both.
    name = "login"
    forms = 0

    def parse(self, response):
        self.forms += 1
        if self.forms == 1:
            yield FormRequest(response.urljoin("/login"), formdata={"user": "me"})
            return
        yield {"page": "private"}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, self.parse_page)

    def parse_page(self, response):
        yield {"page": response.url.rpartition("/")[2]}
        yield response.follow("/", self.parse_home)
        yield response.follow("/")

    def parse_home(self, response):
        yield {"page": "home"}


class Again(scrapy.Spider):
    name = "again"

    def parse(self, response):
        yield Request(response.url, self.second)
        yield Request(response.url, self.second)
        yield Request(response.url, self.third)

    def second(self, response):
        yield {"page": "second"}

    third = second


class Rules(CrawlSpider):
    name = "rules"
    rules = [Rule(LinkExtractor(), callback="parse_page", follow=True)]

    def parse_page(self, response):
        yield {"page": response.url.rpartition("/")[2]}


class Killed(Again):
    name = "killed"

    async def parse(self, response):
        yield Request(response.url, self.second)
        await asyncio.sleep(0.5)  # meanwhile that is done, and in a checkpoint
        if self.settings.getbool("KILL"):
            os.kill(os.getpid(), signal.SIGKILL)
"""
PAGES = {
    "/": "<a href='/a'>a</a><a href='/b'>b</a><a href='/'>home</a>",
    "/a": "<a href='/'>home</a><a href='/b'>b</a>",
    "/b": "<a href='/'>home</a>",
    "/login": "-> /",
}
FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES) as (base, requested):
        yield Site(tmp_path, base, requested)


def items(site: Site) -> Counter[str]:
    lines = (site.folder / "items.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["page"] for line in lines)


@pytest.mark.parametrize(
    ("spider", "settings"),
    [
        *((spider, [JOB]) for spider in ("Login", "Again", "Rules")),
        ("Login", []),
    ],
)
def test_what_scrapy_fetches_is_fetched(
    site: Site, spider: str, settings: list[str]
) -> None:
    """Stock Scrapy says what there is to find."""
    site.crawl(spider, FEED, "ADDONS={}")
    expected, asked = items(site), Counter(site.take())
    assert expected
    (site.folder / "items.jsonl").unlink()
    assert site.crawl(spider, FEED, *settings)["finish_reason"] == "finished"
    assert items(site) == expected
    assert Counter(site.take()) == asked


def test_a_second_use_is_known_after_a_kill(site: Site) -> None:
    process = site.start(
        "Killed", FEED, JOB, "KILL=1", "BLOOMDUPE_CHECKPOINT_INTERVAL=0.05"
    )
    _, log = process.communicate(timeout=60)
    assert process.returncode == -9, log
    assert site.crawl("Killed", FEED, JOB)["finish_reason"] == "finished"
    assert items(site) == {"second": 1}


def test_a_plain_link_back_is_a_duplicate(site: Site) -> None:
    stats = site.crawl("Rules", FEED, JOB)
    assert Counter(site.take())["/"] == 2  # once more for the rule, not for each link
    assert stats["dupefilter/filtered"] == 6


def test_of_an_exact_url_no_second_use_is_lost(site: Site) -> None:
    """Even if the filter takes everything for seen."""
    settings = ["BLOOMDUPE_EXPECTED_URLS=1", "BLOOMDUPE_FPP=0.5", JOB, FEED]
    settings += ["BLOOMDUPE_GROWTH=warn", r"BLOOMDUPE_EXACT_URLS=127\.0\.0\.1"]
    site.crawl("Again", *settings, starts=("/a",))
    with BloomFilter.open(site.folder / "job/bloomdupe", growth="warn") as seen:
        seen.update(str(number) for number in range(1_000_000))
    site.take()
    site.crawl("Again", *settings, starts=("/b",))
    assert site.take() == ["/b", "/b"]
    assert items(site) == {"second": 2}
