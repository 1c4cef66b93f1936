"""A spider has the same features on Redis as with a JOBDIR: real workers and site."""

from __future__ import annotations

import pytest
from spiders.follow import PutsOut
from spiders.scheduler import Renamed, RenamedLater
from support.crawl import Crawl
from support.redis_server import RedisServer
from support.site import links

pytestmark = pytest.mark.slow

PAGES = {"/0": links(*"1234")}


def test_workers_pass_on_requests_that_they_have_set_aside(crawl: Crawl) -> None:
    crawl.run(Renamed)
    crawl.settings["BLOOMDUPE_REDIS_LEASE"] = 1  # passed on as quickly
    for worker in [crawl.start(RenamedLater) for _ in range(2)]:
        run = worker.wait()
        assert (run.status, run.finish_reason) == (1, "incomplete"), run.log
        assert "Requests that are not done: 4" in run.log


def test_the_url_has_the_name_of_the_spider(
    crawl: Crawl, redis_server: RedisServer
) -> None:
    crawl.run(PutsOut, BLOOMDUPE_REDIS_URL=redis_server.url("of %(spider)s"))
    crawl.engine.job = redis_server.url("of puts_out")
    assert crawl.items() == [{"page": "0"}]
