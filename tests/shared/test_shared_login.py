"""A crawl behind a login that workers share: who is logged in is so on all of them."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from crew import Crew
from support.login_site import ACCOUNTS, PAGES, LoginSite
from support.redis_server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
from urllib.parse import urljoin

import scrapy


class Login(scrapy.Spider):
    # Logs in with each account, in a jar of its own.
    name = "login"

    async def start(self):
        for account in ("ann", "bob"):
            yield scrapy.FormRequest(
                urljoin(self.start_urls[0], "/login"),
                formdata={"user": account},
                meta={"cookiejar": account},
            )

    def parse(self, response):
        yield {"title": response.css("h1::text").get()}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, meta={"cookiejar": response.meta["cookiejar"]})
"""
EXPECTED = Counter(
    "0 " + json.dumps({"title": f"{account} {n}"}) + "\n"
    for account in ACCOUNTS
    for n in range(PAGES)
)


@pytest.fixture
def site() -> Iterator[LoginSite]:
    with LoginSite() as site:
        yield site


@pytest.fixture
def crew(tmp_path: Path, site: LoginSite) -> Iterator[Crew]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    feed = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
    settings = feed, "BLOOMDUPE_REDIS_LEASE=1", "BLOOMDUPE_REDIS_PARTITION_BY=url"
    with RedisServer(tmp_path / "redis") as redis:
        crew = Crew(tmp_path, site.base, redis, [], *settings)
        try:
            yield crew
        finally:
            crew.dismiss()


def shared(crew: Crew, site: LoginSite, *settings: str) -> None:
    """Let one worker log in and be killed, and two others go on."""
    answers = 2 + 2 + 11  # the logins come before their pages
    site.hold_after(answers)
    first = crew.hire("Login", *settings)
    site.until_requested(answers + 1)
    first.kill()
    others = [crew.hire("Login", *settings) for _ in range(2)]
    site.release()
    for worker in others:
        worker.end()


def test_all_workers_are_logged_in(crew: Crew, site: LoginSite) -> None:
    """Each page may be any worker's, and whoever has logged in is dead."""
    shared(crew, site)
    assert crew.items() == EXPECTED
    assert site.turned_away == 0
    # Whoever comes afterwards is asked to do nothing.
    asked = site.asked.total()
    crew.hire("Login").end()
    assert site.asked.total() == asked


def test_without_cookies_each_is_a_stranger(crew: Crew, site: LoginSite) -> None:
    """The control."""
    shared(crew, site, "BLOOMDUPE_COOKIES=0")
    assert site.turned_away > 0
