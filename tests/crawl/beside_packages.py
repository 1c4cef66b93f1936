"""Kills crawls beside third-party packages: ``beside_packages.py [PACKAGE...]``.

Each crawl is killed three times, before the site answers its 30th request, and run to
its end. The judge is the file of items against the pages of the site. Packages that are
not installed are named and left out. Exit status 1 if any crawl is not as it should be.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.crawl import FEEDS, Crawl
from support.site import Page, Site, links

PAGES = 120
KILLS = 3

OURS = "bloomdupe.Addon"
ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

PLAIN = """
import scrapy

class Plain(scrapy.Spider):
    name = "plain"

    def parse(self, response):
        yield {"page": response.url}
        yield from response.follow_all(css="a")
"""

INLINE = """
import scrapy
from inline_requests import inline_requests

class Inline(scrapy.Spider):
    name = "inline"

    @inline_requests
    def parse(self, response):
        detail = yield scrapy.Request(response.url + "?detail")
        yield {"page": response.url, "detail": detail.url}
        yield from response.follow_all(css="a", callback=self.parse)
"""

POET = """
import scrapy
from web_poet import WebPage

class Links(WebPage):
    def links(self):
        return self.css("a::attr(href)").getall()

class Poet(scrapy.Spider):
    name = "poet"

    def parse(self, response, page: Links):
        yield {"page": response.url}
        yield from response.follow_all(page.links())
"""

MONITORED = (
    PLAIN
    + """
from spidermon import Monitor, MonitorSuite

class Items(Monitor):
    def test_items(self):
        assert self.data.stats["bloomdupe/total_items"] > 0

class Suite(MonitorSuite):
    monitors = [Items]
"""
)


class Case(NamedTuple):
    """A crawl beside a package."""

    module: str
    """That must be installed."""
    spiders: str
    settings: dict[str, Any]


def zyte(ours: int) -> dict[str, Any]:
    return {
        "ADDONS": {OURS: ours, "scrapy_zyte_api.Addon": 500},
        "ZYTE_API_KEY": "none",
        "ZYTE_API_TRANSPARENT_MODE": False,
        "TWISTED_REACTOR": ASYNCIO,
    }


CASES = {
    "nothing": Case("scrapy", PLAIN, {}),
    "scrapy-inline-requests": Case("inline_requests", INLINE, {}),
    "scrapy-poet": Case(
        "scrapy_poet", POET, {"ADDONS": {OURS: 500, "scrapy_poet.Addon": 300}}
    ),
    "scrapy-zyte-api": Case("zyte_common_items", PLAIN, zyte(600)),
    "scrapy-zyte-api, later": Case("zyte_common_items", PLAIN, zyte(400)),
    "spidermon": Case(
        "spidermon",
        MONITORED,
        {
            "SPIDERMON_ENABLED": True,
            "SPIDERMON_SPIDER_CLOSE_MONITORS": ["beside.Suite"],
            "EXTENSIONS": {"spidermon.contrib.scrapy.extensions.Spidermon": 500},
        },
    ),
}


def all_pages() -> dict[str, Page]:
    pages: dict[str, Page] = {}
    for number in range(PAGES):
        others = [2 * number + 1, 2 * number + 2, number // 2]
        body = links(*(f"/{n}" for n in others if n < PAGES))
        pages[f"/{number}"] = pages[f"/{number}?detail"] = body
    return pages


def judge(case: Case) -> str:
    """Crawl beside a package; return what is wrong, or nothing."""
    spider = case.spiders.partition("(scrapy.Spider)")[0].rpartition("class ")[2]
    with (
        tempfile.TemporaryDirectory() as name,
        Site(all_pages()) as site,
        Crawl(Path(name), site, FEEDS=FEEDS, **case.settings) as crawl,
    ):
        crawl.starts = ("/0",)
        (crawl.folder / "beside.py").write_text(case.spiders)
        try:
            for _ in range(KILLS):
                crawl.killed(f"beside.{spider}", at_request=PAGES // 4)
            crawl.run(f"beside.{spider}")
        except AssertionError as error:
            return str(error)[-2000:]
        found = sorted(item["page"] for item in crawl.items())
        if found == sorted(f"{site.base}/{n}" for n in range(PAGES)):
            return ""
        return f"{len(found)} items, {len({*found})} pages"


def main() -> int:
    wrong = False
    for name in sys.argv[1:] or CASES:
        case = CASES[name]
        if importlib.util.find_spec(case.module) is None:
            print(f"{name}: {case.module} is not installed", flush=True)
            continue
        fault = judge(case)
        wrong = wrong or bool(fault)
        print(f"{name}: {fault or f'{PAGES} items, each once'}", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
