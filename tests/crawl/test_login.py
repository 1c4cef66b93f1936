"""Crawls behind a login, killed and run again: who is logged in stays logged in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from spiders.login import Login, keep_no_cookies
from support.crawl import Crawl
from support.login_site import ACCOUNTS, PAGES, LoginSite

from bloomdupe import BloomFilter
from bloomdupe.frontier.pending_requests import pending_in
from bloomdupe.store.lmdb.check import verify

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("feed")]

EXPECTED = sorted(f"{account} {n}" for account in ACCOUNTS for n in range(PAGES))
KILLS = (8, 31, 40)
"""Pages that a run gets before it is killed."""


@pytest.fixture
def site() -> Iterator[LoginSite]:
    with LoginSite() as site:
        yield site


def titles(crawl: Crawl) -> list[str]:
    return sorted(item["title"] for item in crawl.items())


def kill_after(crawl: Crawl, site: LoginSite, answers: int) -> str:
    """Run until so many answers are in a checkpoint; kill -9, and return the log."""
    due = crawl.durable_pages + answers
    logs_in = not site.sessions
    if logs_in:  # both first, in any order
        site.hold(*(f"/{account}/0" for account in ACCOUNTS))
    else:
        site.hold_after(answers)
    process = crawl.start(Login)
    if logs_in:
        process.until(lambda: len(site.sessions) == len(ACCOUNTS))
        site.hold_after(answers)
    process.until(lambda: crawl.durable_pages == due)
    log = process.kill().log
    site.release()
    return log


def cookies(crawl: Crawl) -> int:
    """Return how many cookies are stored."""
    return verify(crawl.store).counts["cookies"]


def test_a_crawl_that_is_killed_goes_on_logged_in(
    crawl: Crawl, site: LoginSite
) -> None:
    logs = [kill_after(crawl, site, answers) for answers in KILLS]
    run = crawl.run(Login)
    assert titles(crawl) == EXPECTED
    assert site.turned_away == 0
    assert len(site.sessions) == len(ACCOUNTS), "each account has logged in once"
    assert run.stats["bloomdupe/runs"] == 1 + len(KILLS)
    assert "2 cookies restored" in run.log
    for secret in site.sessions:
        assert not any(secret in log for log in (*logs, run.log))


def test_pages_are_lost_if_cookies_are_not_kept(crawl: Crawl, site: LoginSite) -> None:
    """The control."""
    kill_after(crawl, site, KILLS[0])
    crawl.run(Login, before=keep_no_cookies)
    assert site.turned_away > 0
    assert len({*EXPECTED} - {*titles(crawl)}) > PAGES / 2


def payloads(crawl: Crawl) -> list[bytes]:
    """Return the pending requests and those in progress, as they are stored."""
    with BloomFilter.open(crawl.store, readonly=True) as seen:
        assert seen._store is not None
        with seen._store.snapshot() as snapshot:
            return [request.payload for request in pending_in(snapshot)]


def test_requests_that_are_sent_again_are_stored_without_their_cookies(
    crawl: Crawl, site: LoginSite
) -> None:
    site.out_of_order = True
    process = crawl.start(Login, RETRY_ENABLED=True, RETRY_TIMES=100_000)
    process.until_logged("Retrying <GET")
    process.until(lambda: any(b"retry_times" in data for data in payloads(crawl)))
    process.kill()
    assert not any(b"secret-" in data for data in payloads(crawl))
    site.out_of_order = False
    crawl.run(Login)
    assert titles(crawl) == EXPECTED
    assert site.turned_away == 0


MIDDLEWARE = "scrapy.downloadermiddlewares.cookies.CookiesMiddleware"


@pytest.mark.parametrize(
    "settings",
    [{"COOKIES_ENABLED": False}, {"DOWNLOADER_MIDDLEWARES": {MIDDLEWARE: None}}],
)
def test_a_crawl_without_scrapys_middleware_is_left_alone(
    crawl: Crawl, site: LoginSite, settings: dict[str, Any]
) -> None:
    crawl.run(Login, **settings)
    assert site.turned_away == len(ACCOUNTS)
    assert cookies(crawl) == 0


def test_a_new_round_begins_without_cookies(crawl: Crawl, site: LoginSite) -> None:
    crawl.settings["BLOOMDUPE_START_REQUESTS"] = "again"
    crawl.run(Login)
    assert "cookies restored" not in crawl.run(Login).log
    assert len(site.sessions) == 2 * len(ACCOUNTS)
    assert site.strangers == 2 * len(ACCOUNTS)
