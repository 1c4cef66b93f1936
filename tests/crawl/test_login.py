"""Crawls behind a login, killed and run again: who is logged in stays logged in."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from scrapy.http import FormRequest
from scrapy.utils.request import fingerprint
from support.login_site import ACCOUNTS, PAGES, login_site
from support.small_site import JOB, Site

from bloomdupe import BloomFilter
from bloomdupe.frontier.payload import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.login_site import LoginSite

pytestmark = pytest.mark.slow

SPIDERS = """
import scrapy


class Login(scrapy.Spider):
    # Logs in with each account, in a jar of its own: the first one in the usual jar.
    name = "login"
    accounts = {"ann": None, "bob": "bob"}
    custom_settings = {
        "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.02,
        "DOWNLOAD_DELAY": 0.005,
        "FEEDS": {"items.jsonl": {"format": "jsonlines"}},
    }

    async def start(self):
        for account, jar in self.accounts.items():
            yield scrapy.FormRequest(
                self.start_urls[0] + "login",
                formdata={"user": account},
                meta={"cookiejar": jar},
            )

    def parse(self, response):
        yield {"title": response.css("h1::text").get()}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, meta={"cookiejar": response.meta["cookiejar"]})
"""

EXPECTED = sorted(f"{account} {n}" for account in ACCOUNTS for n in range(PAGES))
KILLS = (10, 31, 40)
"""Pages that a run gets before it is killed."""
DEADLINE = 60


@pytest.fixture
def server() -> Iterator[LoginSite]:
    with login_site() as server:
        yield server


@pytest.fixture
def site(tmp_path: Path, server: LoginSite) -> Site:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    return Site(tmp_path, server.url, [])


def titles(site: Site) -> list[str]:
    lines = (site.folder / "items.jsonl").read_text().splitlines()
    return sorted(json.loads(line)["title"] for line in lines)


def logged_in(site: Site) -> bool:
    """Whether all logins are done, as of the last checkpoint."""
    store = site.folder / "job" / "bloomdupe"
    if not (store / "data.mdb").exists():
        return False
    with BloomFilter.open(store, readonly=True) as seen:
        assert seen._store is not None
        if seen.record("frontier") is None:
            return False
        # In this order, for another checkpoint may come in between.
        login = f"{site.base}/login"
        begun = [
            fingerprint(FormRequest(login, formdata={"user": account})) in seen
            for account in ACCOUNTS
        ]
        with seen._store.snapshot() as snapshot:
            urls = [url_of(request.payload) for _, request in snapshot.queue()]
        return all(begun) and login not in urls


def kill_after(site: Site, server: LoginSite, pages: int, *settings: str) -> str:
    """Run until so many pages were answered and the login is done; kill -9."""
    server.close_gate_after(pages)
    process = site.start("Login", JOB, *settings)
    try:
        server.wait_at_gate(DEADLINE)
        deadline = time.monotonic() + DEADLINE
        while not logged_in(site):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
        _, log = process.communicate()
    server.open_gate()
    return log


def test_a_crawl_that_is_killed_goes_on_logged_in(
    site: Site, server: LoginSite
) -> None:
    logs = [kill_after(site, server, pages) for pages in KILLS]
    stats = site.crawl("Login", JOB)
    assert titles(site) == EXPECTED
    assert server.turned_away == 0
    assert len(server.sessions) == len(ACCOUNTS), "each account has logged in once"
    assert stats["bloomdupe/runs"] == 1 + len(KILLS)
    assert "2 cookies restored" in stats["log"]
    for secret in server.sessions:
        assert not any(secret in log for log in (*logs, stats["log"]))


def test_without_the_setting_the_pages_are_lost(site: Site, server: LoginSite) -> None:
    off = "BLOOMDUPE_COOKIES=0"
    kill_after(site, server, KILLS[0], off)
    site.crawl("Login", JOB, off)
    assert server.turned_away > 0
    found = titles(site)
    assert len(set(EXPECTED) - set(found)) > PAGES / 2


def test_it_can_be_switched_off_and_on_between_runs(
    site: Site, server: LoginSite
) -> None:
    kill_after(site, server, KILLS[0])
    store = site.folder / "job" / "bloomdupe"
    with BloomFilter.open(store) as seen:
        assert seen._store is not None
        assert seen._store.totals[b"cookies"][0] == len(ACCOUNTS)
    site.crawl("Login", JOB, "BLOOMDUPE_COOKIES=0")
    assert server.turned_away > 0
    with BloomFilter.open(store) as seen:
        assert seen._store is not None
        assert seen._store.totals[b"cookies"][0] == 0


def payloads(site: Site) -> list[bytes]:
    """Return the requests that wait or are under way, as they are stored."""
    store = site.folder / "job" / "bloomdupe"
    if not (store / "data.mdb").exists():
        return []
    with BloomFilter.open(store, readonly=True) as seen:
        assert seen._store is not None
        if seen.record("frontier") is None:
            return []
        with seen._store.snapshot() as snapshot:
            return [request.payload for _, request in snapshot.queue()]


def test_requests_that_are_sent_again_are_stored_without_their_cookies(
    site: Site, server: LoginSite
) -> None:
    server.out_of_order = True
    process = site.start("Login", JOB, "RETRY_ENABLED=1", "RETRY_TIMES=100000")
    try:
        deadline = time.monotonic() + DEADLINE
        while not any(b"retry_times" in payload for payload in payloads(site)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
        process.communicate()
    assert not any(b"secret-" in payload for payload in payloads(site))
    server.out_of_order = False
    site.crawl("Login", JOB)
    assert titles(site) == EXPECTED
    assert server.turned_away == 0


@pytest.mark.parametrize("setting", ["COOKIES_ENABLED=0", "no middleware"])
def test_a_crawl_without_scrapys_middleware_is_left_alone(
    site: Site, server: LoginSite, setting: str
) -> None:
    if setting == "no middleware":
        name = "scrapy.downloadermiddlewares.cookies.CookiesMiddleware"
        setting = f'DOWNLOADER_MIDDLEWARES={{"{name}": null}}'
    site.crawl("Login", JOB, setting)
    assert server.turned_away == len(ACCOUNTS)
    with BloomFilter.open(site.folder / "job" / "bloomdupe") as seen:
        assert seen._store is not None
        assert b"cookies" not in seen._store.totals


def test_a_new_round_begins_without_cookies(site: Site, server: LoginSite) -> None:
    again = "BLOOMDUPE_START_REQUESTS=again"
    site.crawl("Login", JOB, again)
    log = site.crawl("Login", JOB, again)["log"]
    assert "cookies restored" not in log
    assert len(server.sessions) == 2 * len(ACCOUNTS)
    assert server.strangers == 2 * len(ACCOUNTS)
