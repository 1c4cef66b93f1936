"""Requests for a point in time, in real crawls; the judge is the server's log."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from scrapy import Request
from scrapy.settings import Settings
from support.page_server import page_server
from support.small_site import JOB, Site

from bloomdupe.crawl.later.not_before import without_time
from bloomdupe.errors import SettingError
from bloomdupe.settings import JobSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import math, time
from datetime import datetime, timedelta, timezone
import scrapy
from scrapy import Request, signals
from scrapy.exceptions import CloseSpider, DontCloseSpider

NOT_BEFORE, DELAY = "bloomdupe_not_before", "bloomdupe_delay"


class Later(scrapy.Spider):
    # /soon waits, and leads to /moved by a redirect, which does not wait again.
    name = "later"
    handle_httpstatus_list = [404]

    def parse(self, response):
        wait = self.settings.getfloat("SECONDS")
        then = datetime.now(timezone.utc) + timedelta(seconds=wait)
        yield response.follow("/soon", self.page, meta={DELAY: wait, "x": 1})
        yield response.follow("/date", self.page, meta={NOT_BEFORE: then, "x": 1})
        yield response.follow("/past", self.page, meta={NOT_BEFORE: 0, "x": 1})
        yield response.follow("/ago", self.page, meta={DELAY: -5, "x": 1})
        yield response.follow("/now", self.page, meta={"x": 1})

    def page(self, response):
        assert response.meta["x"] == 1
        assert DELAY not in response.meta and NOT_BEFORE not in response.meta
        yield {"page": response.url}


class Crowd(Later):
    # Very many of them, due one after the other.
    name = "crowd"

    def parse(self, response):
        wait = self.settings.getfloat("SECONDS")
        for number in range(300):
            yield response.follow(f"/crowd{number}", self.page,
                                  meta={DELAY: wait + number / 100, "x": 1})


class Lambda(Later):
    # It cannot be stored, so it waits in memory, and its parent is not done.
    name = "lambda"

    def parse(self, response):
        wait = self.settings.getfloat("SECONDS")
        yield response.follow("/a", lambda response: None, meta={DELAY: wait})


class Bad(Later):
    name = "bad"
    values = [
        {NOT_BEFORE: "tomorrow"}, {NOT_BEFORE: datetime(2030, 1, 1)},
        {NOT_BEFORE: math.nan}, {NOT_BEFORE: 253402300800}, {NOT_BEFORE: True},
        {DELAY: "5"}, {DELAY: math.inf}, {DELAY: 1e12}, {DELAY: None},
        {NOT_BEFORE: 1, DELAY: 1},
    ]

    async def start(self):
        yield Request(self.start_urls[0], dont_filter=True)
        if self.settings["BAD"]:
            yield Request(self.start_urls[0] + "start", meta={DELAY: "soon"})

    def parse(self, response):
        yield {"page": response.url}
        for number, meta in enumerate(self.values):
            if not self.settings["BAD"]:
                meta = {DELAY: 0}
            yield response.follow(f"/{number}", self.page, meta={**meta, "x": 1})
        yield response.follow("/after", self.page, meta={"x": 1})


class Idle(Later):
    # Says when it is idle; feeds itself then.
    name = "idle"
    idle_at = 0

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.on_idle, signals.spider_idle)
        return spider

    def on_idle(self):
        self.crawler.stats.inc_value("idle")
        if not self.idle_at:
            self.idle_at = time.time()
            request = Request(self.start_urls[0] + "fed", self.page, meta={"x": 1})
            self.crawler.engine.crawl(request)
            raise DontCloseSpider

    def parse(self, response):
        yield response.follow("/soon", self.page, meta={"x": 1,
                              DELAY: self.settings.getfloat("SECONDS")})
"""

PAGES = {
    "/": "",
    "/soon": "-> /moved",
    **dict.fromkeys(("/moved", "/date", "/past", "/ago", "/now", "/fed", "/a"), "x"),
    **dict.fromkeys([f"/{number}" for number in range(10)], "x"),
    **dict.fromkeys([f"/crowd{number}" for number in range(300)], "x"),
    "/start": "",
    "/after": "",
}
NOW = ["/", "/ago", "/now", "/past"]
LATER = ["/date", "/moved", "/soon"]


@pytest.fixture
def times() -> list[float]:
    return []


@pytest.fixture
def site(tmp_path: Path, times: list[float]) -> Iterator[Site]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES, times) as (base, requested):
        yield Site(folder, base, requested)


WHERE = pytest.mark.parametrize("where", [[], [JOB]], ids=["memory", "job"])
AT_ONCE = "BLOOMDUPE_WAIT=0"


@WHERE
def test_a_request_is_sent_at_its_time_and_not_before(
    site: Site, where: list[str], times: list[float]
) -> None:
    stats = site.crawl("Later", "SECONDS=1", *where)
    at = dict(zip(site.requested, times, strict=True))
    assert sorted(at) == sorted(NOW + LATER)
    for path in LATER:
        assert at[path] >= at["/"] + 1, path
    assert all(at[path] < at["/"] + 1 for path in NOW)
    assert stats["finish_reason"] == "finished"
    assert stats["item_scraped_count"] == 5
    assert (stats["bloomdupe/later"], stats["bloomdupe/pending"]) == (0, 0)
    assert "2 requests wait for a point in time, the next one until" in stats["log"]


def test_a_run_that_is_not_to_wait_ends_and_the_next_one_goes_on(site: Site) -> None:
    stats = site.crawl("Later", "SECONDS=3", JOB, AT_ONCE)
    assert sorted(site.take()) == NOW
    assert stats["finish_reason"] == "waiting"
    assert (stats["bloomdupe/later"], stats["bloomdupe/pending"]) == (2, 2)
    stats = site.crawl("Later", "SECONDS=3", JOB, "BLOOMDUPE_WAIT=10")
    assert sorted(site.take()) == LATER
    assert "the last run ended: waiting" in stats["log"]
    assert stats["finish_reason"] == "finished"


def test_after_kills_none_is_lost_none_is_early_and_none_comes_twice(
    site: Site, times: list[float]
) -> None:
    settings = ["SECONDS=4", JOB, "BLOOMDUPE_CHECKPOINT_INTERVAL=0.05"]
    under_way = 0
    for number in (50, 150):
        process = site.start("Crowd", *settings)
        while len(site.requested) < number:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        # What the last checkpoint may not hold, on a machine that is busy.
        under_way += sum(when > times[-1] - 1.5 for when in times)
    stats = site.crawl("Crowd", *settings)
    assert stats["finish_reason"] == "finished"
    asked = Counter(site.requested)
    assert asked.keys() == {"/", *(f"/crowd{number}" for number in range(300))}
    assert asked.total() - len(asked) <= under_way
    for path, when in zip(site.requested, times, strict=True):
        if path != "/":
            assert when >= times[0] + 4 + int(path.removeprefix("/crowd")) / 100


def test_the_object_that_was_yielded_stays_as_it_is() -> None:
    """It may be yielded again, and wait again."""
    request = Request("http://a.example/", meta={"bloomdupe_delay": 5, "x": 1})
    assert without_time(request).meta == {"x": 1}
    assert request.meta == {"bloomdupe_delay": 5, "x": 1}


def test_what_cannot_be_stored_waits_in_memory(site: Site, times: list[float]) -> None:
    stats = site.crawl("Lambda", "SECONDS=1", JOB)
    assert stats["scheduler/unserializable"] == 1
    assert site.requested == ["/", "/a"]
    assert times[1] >= times[0] + 1


def test_what_is_no_time_is_refused_and_its_page_stays_owed(site: Site) -> None:
    stats = site.crawl("Bad", "BAD=1", JOB)
    assert sorted(site.take()) == ["/", "/after"]
    assert stats["bloomdupe/refused"] == 11
    for number in range(10):
        assert f"<GET {site.base}/{number}> is refused: " in stats["log"]
    for words in (
        "'tomorrow': expected Unix seconds or a datetime with a time zone",
        "datetime.datetime(2030, 1, 1, 0, 0) has no time zone",
        "= nan: expected Unix seconds",
        "= 253402300800 is after the year 9999",
        "= True: expected Unix seconds",
        "['bloomdupe_delay'] = '5': expected seconds",
        "= inf: expected seconds",
        "= 1000000000000.0 is after the year 9999",
        "has both 'bloomdupe_not_before' and 'bloomdupe_delay'",
        f"(<GET {site.base}/>)",
        f"<GET {site.base}/start> is refused: meta['bloomdupe_delay'] = 'soon'",
    ):
        assert words in stats["log"], words
    stats = site.crawl("Bad", JOB)  # mended
    assert sorted(site.take()) == ["/", *(f"/{number}" for number in range(10))]
    assert stats["bloomdupe/total_items"] == 12
    assert stats["bloomdupe/pending"] == 0


def test_a_spider_is_idle_when_nothing_waits(site: Site, times: list[float]) -> None:
    stats = site.crawl("Idle", "SECONDS=1", JOB)
    assert site.requested == ["/", "/soon", "/moved", "/fed"]
    assert times[1] >= times[0] + 1
    assert stats["idle"] == 2


def test_a_run_that_ends_early_is_idle_first(site: Site) -> None:
    stats = site.crawl("Idle", "SECONDS=60", JOB, "BLOOMDUPE_WAIT=5")
    assert site.requested == ["/", "/fed"]
    assert stats["finish_reason"] == "waiting"


def test_a_crawl_that_sleeps_is_closed_in_time(site: Site) -> None:
    stats = site.crawl("Later", "SECONDS=60", "CLOSESPIDER_TIMEOUT=2", JOB)
    assert stats["finish_reason"] == "closespider_timeout"
    assert stats["bloomdupe/later"] == 2


def test_when_the_clock_was_set_back_nothing_is_lost_and_it_is_said_once(
    site: Site,
) -> None:
    site.crawl("Later", "SECONDS=1", JOB, AT_ONCE)
    assert sorted(site.take()) == NOW
    yesterday = "import time; t = time.time; time.time = lambda: t() - 86400\n"
    stats = site.crawl("Later", JOB, AT_ONCE, before=yesterday)
    assert site.take() == []
    assert stats["finish_reason"] == "waiting"
    said = re.findall(r"The clock was set back by (2[34]\.\d) h", stats["log"])
    assert len(said) == 1


@pytest.mark.parametrize("value", ["-1", -1, "soon", "nan", "inf"])
def test_a_wait_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(SettingError, match=r"BLOOMDUPE_WAIT.*expected no negative"):
        JobSettings.read(Settings({"BLOOMDUPE_WAIT": value}))
