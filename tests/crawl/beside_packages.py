"""Kills crawls beside third-party packages: ``beside_packages.py [PACKAGE...]``.

Each crawl is killed three times, before the site answers its 30th request, and run
again until it says that it was finished. The judge is the file of items against the
pages of the site. Packages that are not installed are named and left out. Exit status
1 if any crawl is not as it should be.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.site import Page, Site, links

PAGES = 120
KILLS = 3
MOST_RUNS = 6

OURS = "bloomdupe.Addon"
ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"

PLAIN = """
import scrapy

class Plain(scrapy.Spider):
    name = "plain"
    start_urls = [BASE + "/0"]

    def parse(self, response):
        yield {"page": response.url}
        yield from response.follow_all(css="a")
"""

INLINE = """
import scrapy
from inline_requests import inline_requests

class Inline(scrapy.Spider):
    name = "inline"
    start_urls = [BASE + "/0"]

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
    start_urls = [BASE + "/0"]

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
            "SPIDERMON_SPIDER_CLOSE_MONITORS": ["spiders.Suite"],
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


def make_project(folder: Path, case: Case, base: str) -> None:
    settings = {
        "ADDONS": {OURS: 500},
        "JOBDIR": "crawls/%(spider)s",
        "FEEDS": {"items.jsonl": {"format": "jsonlines"}},
        "SPIDER_MODULES": ["spiders"],
        "BLOOMDUPE_EXPECTED_URLS": 10_000,
        "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.1,
        "DOWNLOAD_DELAY": 0.01,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "LOG_LEVEL": "INFO",
        **case.settings,
    }
    lines = (f"{name} = {value!r}\n" for name, value in settings.items())
    (folder / "project.py").write_text("".join(lines))
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
    (folder / "spiders.py").write_text(f"BASE = {base!r}\n{case.spiders}")


def judge(case: Case) -> str:
    """Crawl beside a package; return what is wrong, or nothing."""
    with (
        tempfile.TemporaryDirectory() as name,
        Site(all_pages()) as site,
    ):
        folder = Path(name)
        make_project(folder, case, site.base)
        spider = case.spiders.partition('name = "')[2].partition('"')[0]
        kills = 0
        log = ""
        for run in range(MOST_RUNS):
            site.kill_at(PAGES // 4 if run < KILLS else 0)
            process = subprocess.Popen(
                [sys.executable, "-m", "scrapy", "crawl", spider],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": name},
                stderr=subprocess.PIPE,
                text=True,
            )
            site.name_victim(process.pid)
            log = process.communicate()[1]
            kills += process.returncode == -signal.SIGKILL
            if "This job was finished" in log:
                break
        items = folder / "items.jsonl"
        lines = items.read_text().splitlines() if items.exists() else []
        found = sorted(json.loads(line)["page"] for line in lines)
        if found == sorted(f"{site.base}/{n}" for n in range(PAGES)) and kills == KILLS:
            return ""
        return (
            f"{kills} kills, {len(found)} items, {len({*found})} pages\n{log[-2000:]}"
        )


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
