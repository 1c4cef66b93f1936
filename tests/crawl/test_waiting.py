"""Requests for a point in time, in real crawls; the judge is the server's log."""

from __future__ import annotations

from typing import Any

import pytest
from spiders.waiting import Bad, Idle, Later
from support.crawl import FEEDS, Crawl
from support.repetition import by_default
from support.site import Pages, Site

pytestmark = pytest.mark.slow

NOW = ["/", "/ago", "/now", "/past"]
LATER = ["/date", "/moved", "/soon"]
BAD = [*(f"/{number}" for number in range(10)), "/odd"]
DAY = 86_400.0

PAGES: Pages = {
    **dict.fromkeys(["/fed", "/start", "/after", *NOW, *LATER, *BAD], "x"),
    "/soon": "-> /moved",
}
SETTINGS = {"FEEDS": FEEDS}


WHERE = pytest.mark.parametrize("engine", ["memory", "disk", "redis"], indirect=True)
BOTH = pytest.mark.usefixtures("engine")
AT_ONCE: dict[str, Any] = {"BLOOMDUPE_WAIT": 0}


@by_default
@WHERE
@BOTH
def test_a_request_is_sent_at_its_time_and_not_before(crawl: Crawl, site: Site) -> None:
    run = crawl.run(Later, SECONDS=1)
    assert sorted(site.requested) == sorted(NOW + LATER)
    times = {path: site.times(path)[0] for path in site.requested}
    for path in LATER:
        assert times[path] >= times["/"] + 1, path
    assert run.finish_reason == "finished"
    assert run.stats["item_scraped_count"] == 5
    assert run.stats["bloomdupe/delayed"] == run.stats.get("bloomdupe/pending", 0) == 0


@BOTH
def test_an_invalid_request_is_refused_and_its_page_stays_pending(crawl: Crawl) -> None:
    run = crawl.run(Bad, BAD=True, status=1)
    assert run.finish_reason == "incomplete"
    assert sorted(run.requested) == ["/", "/after"]
    assert run.stats["bloomdupe/refused"] == 12
    for path in BAD:
        assert f"<GET {crawl.site.base}{path}> is refused: " in run.log
    for words in (
        "'tomorrow': expected Unix seconds before the year 10000 or a datetime with",
        "datetime.datetime(2030, 1, 1, 0, 0) has no time zone",
        "= nan: expected Unix seconds",
        "= 253402300800: expected Unix seconds before the year 10000",
        "= True: expected Unix seconds",
        "['bloomdupe_delay'] = '5': expected seconds",
        "= a value that is too large to be shown: expected seconds",
        "= 1000000000000.0: expected seconds, for a time before the year 10000",
        "has both 'bloomdupe_not_before' and 'bloomdupe_delay'",
        "its priority, 0.5, is not an integer",
        f"the next run repeats <GET {crawl.site.base}/>, which",
        f"<GET {crawl.site.base}/start> is refused: meta['bloomdupe_delay'] = 'soon'",
    ):
        assert words in run.log, words
    run = crawl.run(Bad)  # mended
    assert sorted(run.requested) == ["/", *BAD]
    assert len(crawl.items()) == 13
    assert run.finish_reason == "finished"


@BOTH
def test_a_run_that_ends_early_is_idle_first(crawl: Crawl) -> None:
    run = crawl.run(Idle, SECONDS=DAY, BLOOMDUPE_WAIT=5)
    assert sorted(run.requested) == ["/", "/ago", "/fed", "/now", "/past"]
    assert run.finish_reason == "waiting"


@BOTH
def test_a_crawl_that_sleeps_is_closed_in_time(crawl: Crawl) -> None:
    run = crawl.run(Later, SECONDS=DAY, CLOSESPIDER_TIMEOUT=1)
    assert run.finish_reason == "closespider_timeout"
    # Both are found by then, or in the next run on a slow machine.
    assert crawl.run(Later, SECONDS=DAY, **AT_ONCE).stats["bloomdupe/delayed"] == 2
