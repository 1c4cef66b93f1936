"""Pipelines that drop what they know: the worked one, and one that loses items."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.page_server import page_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
COUNT = 120
PAGES = {
    f"/{number}": "".join(
        f"<a href='/{child}'>x</a>"
        for child in (2 * number + 1, 2 * number + 2)
        if child < COUNT
    )
    for number in range(COUNT)
}
CONTENTS = {f"title {number % 40}" for number in range(COUNT)}
"""Of three pages each."""

SETTINGS = """
ADDONS = {"bloomdupe.Addon": 500}
JOBDIR = "job"
FEEDS = {"items.jsonl": {"format": "jsonlines"}}
BLOOMDUPE_EXPECTED_URLS = 10_000
CONCURRENT_REQUESTS_PER_DOMAIN = 8
SPIDER_MODULES = ["spiders"]
TELNETCONSOLE_ENABLED = False
DEFAULT_DROPITEM_LOG_LEVEL = "INFO"
LOG_LEVEL = "INFO"
"""

SPIDERS = """
import asyncio, sqlite3
import scrapy
from scrapy.exceptions import DropItem
from crawler.items import Page


class Careless:
    # What everybody writes.

    def open_spider(self, _=None):
        self.database = sqlite3.connect("careless.db", isolation_level=None)
        self.database.execute("CREATE TABLE IF NOT EXISTS known (title PRIMARY KEY)")

    def process_item(self, item, _=None):
        try:
            self.database.execute("INSERT INTO known VALUES (?)", (item.title,))
        except sqlite3.IntegrityError:
            raise DropItem("known") from None
        return item


class First(scrapy.Spider):
    name = "first"
    start_urls = ["BASE/0"]

    async def parse(self, response):
        number = int(response.url.rpartition("/")[2])
        yield Page(response.url, 200, f"title {number % 40}", 0, "", 0, None, "")
        yield Page(response.url, 200, None, 0, "", 0, None, "")
        await asyncio.sleep(0.1)
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)
"""


class Project:
    """A project whose crawls can be killed."""

    def __init__(self, folder: Path, base: str, asked: list[str]) -> None:
        self.folder, self.asked = folder, asked
        (folder / "project.py").write_text(SETTINGS)
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
        (folder / "spiders.py").write_text(SPIDERS.replace("BASE", base))

    def crawl(self, pipeline: str, *settings: str, kill_at: int | None = None) -> str:
        """Crawl, or kill the crawl after so many requests; return its log."""
        values = [f'ITEM_PIPELINES={{"{pipeline}": 1}}', *settings]
        options = [part for value in values for part in ("-s", value)]
        begun = len(self.asked)
        path = os.pathsep.join([str(self.folder), str(ROOT)])
        process = subprocess.Popen(
            [sys.executable, "-m", "scrapy", "crawl", "first", *options],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path},
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 60
        while kill_at is not None and len(self.asked) - begun < kill_at:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.001)
        if kill_at is not None:
            process.kill()
        _, log = process.communicate(timeout=60)
        assert kill_at is not None or process.returncode == 0, log
        return log

    def titles(self, file: str = "items.jsonl") -> list[str]:
        """Return the titles in the output."""
        items = map(json.loads, (self.folder / file).read_text().splitlines())
        return [item["title"] for item in items if item["title"] is not None]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with page_server(PAGES) as (base, asked):
        yield Project(tmp_path, base, asked)


def test_each_content_is_there_once_whenever_the_crawl_was_killed(
    project: Project,
) -> None:
    pipeline = "crawler.known.KnownPipeline"
    for kill_at in (15, 25, 30):
        project.crawl(pipeline, kill_at=kill_at)
    log = project.crawl(pipeline)
    assert sorted(project.titles()) == sorted(CONTENTS)
    assert "bloomdupe/round': 1" in log
    # The next job knows it all, and so does the next round of this one.
    project.crawl(pipeline, "JOBDIR=next", 'FEEDS={"next.jsonl": {"format": "jsonl"}}')
    assert not project.titles("next.jsonl")
    again = "BLOOMDUPE_START_REQUESTS=again"
    log = project.crawl(pipeline, again, "CLOSESPIDER_PAGECOUNT=5")
    assert "bloomdupe/round': 2" in log
    assert sorted(project.titles()) == sorted(CONTENTS)


def test_a_careless_pipeline_loses_items_and_a_warning_says_so(
    project: Project,
) -> None:
    """The control: it bites, and what cannot be prevented is said."""
    project.crawl("spiders.Careless", kill_at=30)
    log = project.crawl("spiders.Careless")
    assert {*project.titles()} < CONTENTS
    assert log.count("may run again because the last run was killed") == 1
    assert "crawler/known.py" in log
    assert "'bloomdupe/dropped_again': " in log


def test_nothing_is_said_of_items_that_are_dropped_without_a_kill(
    project: Project,
) -> None:
    project.crawl("spiders.Careless", "CLOSESPIDER_PAGECOUNT=20")
    log = project.crawl("spiders.Careless")
    assert "item_dropped_count" in log
    assert "dropped_again" not in log
    assert "last run was killed" not in log
    assert sorted(project.titles()) == sorted(CONTENTS)
