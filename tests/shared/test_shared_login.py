"""A crawl behind a login that workers share: who is logged in is so on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from spiders.login import ByMany, keep_no_cookies
from support.crawl import Crawl
from support.judge import lines
from support.login_site import ACCOUNTS, PAGES, LoginSite
from support.redis_server import RedisServer

pytestmark = pytest.mark.slow

EXPECTED = lines({"title": f"{name} {n}"} for name in ACCOUNTS for n in range(PAGES))


@pytest.fixture
def site() -> Iterator[LoginSite]:
    with LoginSite() as site:
        yield site


def share(
    crawl: Crawl,
    site: LoginSite,
    redis: RedisServer,
    before: Callable[[], None] | None = None,
) -> None:
    """Let one worker log in and be killed, and let two more workers continue."""
    crawl.starts = ("/",)
    answers = 2 + 2 + 11  # the logins come before their pages
    site.hold_after(answers)
    first = crawl.start(ByMany, before=before)
    first.until_requested(answers + 1)
    first.kill()
    redis.end_leases("crawl")
    others = [crawl.start(ByMany, before=before) for _ in range(2)]
    site.release()
    for worker in others:
        worker.finish()


def test_all_workers_are_logged_in(
    crawl: Crawl, site: LoginSite, redis: RedisServer
) -> None:
    """Any worker may fetch any page, and the worker that has logged in is dead."""
    share(crawl, site, redis)
    assert lines(crawl.items()) == EXPECTED
    assert site.turned_away == 0
    # A worker that comes afterwards is asked to do nothing.
    asked = site.asked.total()
    crawl.finish(ByMany)
    assert site.asked.total() == asked


def test_without_cookies_workers_are_turned_away(
    crawl: Crawl, site: LoginSite, redis: RedisServer
) -> None:
    """The control."""
    share(crawl, site, redis, keep_no_cookies)
    assert site.turned_away > 0
