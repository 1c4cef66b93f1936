"""The scheduler in real crawls: what the server was asked for, and the stats."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from page_server import page_server
from small_site import JOB, PAGES, Site

from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.payload import url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPIDERS = """
import asyncio, functools, os, signal, time
import scrapy
from scrapy import Request
from scrapy.exceptions import CloseSpider
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider
from scrapy.utils.engine import format_engine_status


class Follow(scrapy.Spider):
    name = "follow"

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


class Everything(Follow):
    # All that a request can carry.
    name = "everything"

    def parse(self, response, number=0, **more):
        if "expected" in response.meta:
            assert response.meta["expected"] == (1, {2}, b"3", 2**70, None)
            assert more == {"words": ["a", "b"]}, more
            assert response.request.headers["X-Number"] == b"%d" % number
            assert response.request.cookies == {"c": "1"}
            assert response.request.method == "POST"
            assert response.request.body == b"body %d" % number
            assert type(response.request) is scrapy.FormRequest
            assert response.request.flags == ["f"]
            self.crawler.stats.inc_value("intact")
        if number < 5:
            number += 1
            yield scrapy.FormRequest(
                response.urljoin(f"/{number}"),
                callback=self.parse,
                errback=self.failed,
                method="POST",
                body=f"body {number}",
                headers={"X-Number": str(number)},
                cookies={"c": "1"},
                meta={"expected": (1, {2}, b"3", 2**70, None),
                      "handle_httpstatus_all": True},
                cb_kwargs={"number": number, "words": ["a", "b"]},
                flags=["f"],
            )
            yield Request("http://127.0.0.1:1/", errback=self.failed)

    def failed(self, failure):
        self.crawler.stats.inc_value("failed")


class Unstorable(Follow):
    # The callbacks of /a ... /f are not methods of the spider.
    name = "unstorable"

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            if len(href) == 2:
                yield response.follow(href, callback=lambda r: self.parse(r))
            else:
                yield response.follow(href)


class OneParent(Follow):
    # /a and /b are in progress when /a yields what cannot be stored.
    name = "one_parent"
    yielded = False

    async def parse(self, response):
        if response.url.endswith("/a"):
            while len(self.crawler.engine._slot.inprogress) < 2:
                await asyncio.sleep(0.01)
            callback = functools.partial(self.parse_more)
            yield response.follow("/c", callback=callback)
            self.yielded = True
        while not self.yielded:
            await asyncio.sleep(0.01)

    async def parse_more(self, response):
        engine, stats = self.crawler.engine, self.crawler.stats
        while len(engine._slot.inprogress) > 1:
            await asyncio.sleep(0.01)
        due = stats.get_value("bloomdupe/checkpoints") + 2
        while self.settings["KILL"]:
            await asyncio.sleep(0.01)
            engine._slot.scheduler.df._opened.notes["time"] = time.time()  # a change
            if stats.get_value("bloomdupe/checkpoints") >= due:
                os.kill(os.getpid(), signal.SIGKILL)


class Leaves(Follow):
    # None of the callbacks is a method of the spider, and none yields anything.
    name = "leaves"

    async def start(self):
        for path in ["", "a", "b", "c", "d", "e", "f"]:
            yield Request(self.start_urls[0] + path, callback=lambda r: None)


class Twice(scrapy.Spider):
    # The same page twice; killed between the two, when the first is done.
    name = "twice"

    async def start(self):
        stats = self.crawler.stats
        yield Request(self.start_urls[0] + "a", dont_filter=True)
        while self.settings["KILL"]:
            await asyncio.sleep(0.01)
            if stats.get_value("bloomdupe/total_pages"):
                os.kill(os.getpid(), signal.SIGKILL)
        yield Request(self.start_urls[0] + "a", dont_filter=True)

    def parse(self, response):
        pass


class Status(Follow):
    # What est() prints, when the links of the start page wait.
    name = "status"
    shown = False

    def parse(self, response):
        yield from super().parse(response)
        if not self.shown:
            self.shown = True
            self.log(format_engine_status(self.crawler.engine))


class Closes(Follow):
    # An item, half of what a page has to say, another item; enough; the rest.
    name = "closes"

    def parse(self, response):
        page = response.url.removeprefix(self.start_urls[0].rstrip("/"))
        links = response.css("a::attr(href)").getall()
        yield {"page": f"{page} 0"}
        for href in links[::2]:
            yield response.follow(href)
        yield {"page": f"{page} 1"}
        if self.settings["CLOSE"]:
            raise CloseSpider("enough")
        for href in links[1::2]:
            yield response.follow(href)
        yield {"page": f"{page} 2"}


class Currencies(Follow):
    # The same page once for each name, killed when three are on disk.
    name = "currencies"

    def requests(self):
        for name in self.settings["FIRST"]:
            yield Request(self.start_urls[0] + "a", self.price, dont_filter=True,
                          cookies={"currency": name}, cb_kwargs={"name": name})

    async def stop(self, number):
        if number == 3 and self.settings["KILL"]:
            await asyncio.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)

    async def parse(self, response):
        for number, request in enumerate(self.requests()):
            await self.stop(number)
            yield request

    def price(self, response, name):
        yield {"name": name}


class StartCurrencies(Currencies):
    name = "start_currencies"

    async def start(self):
        for number, request in enumerate(self.requests()):
            await self.stop(number)
            yield request


class LateStart(Currencies):
    # What start() yields late was found as a link before.
    name = "late_start"

    async def start(self):
        yield Request(self.start_urls[0], self.links)
        if self.settings["KILL"]:
            await asyncio.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)
        for path, name in zip("abcdef", "ABCDEF"):
            yield Request(self.start_urls[0] + path, self.price, dont_filter=True,
                          cb_kwargs={"name": name})

    def links(self, response):
        yield from Follow.parse(self, response)

    async def parse(self, response):
        for _ in ():
            yield


class Quota(Follow):
    # Six items, and enough when the quota is reached.
    name = "quota"

    def parse(self, response):
        for n in range(6):
            if n == self.settings.getint("QUOTA"):
                raise CloseSpider("quota")
            yield {"n": n}


class Hosts(Follow):
    # 2,000 hosts, as far as the downloader and the scheduler know.
    name = "hosts"

    def parse(self, response):
        if response.meta["depth"] == 0:
            for number in range(2000):
                yield response.follow(
                    f"/{number}", meta={"download_slot": f"host-{number}"}
                )


class Forgetful(Follow):
    # There is no memory for the page /c, the first time.
    name = "forgetful"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {"spiders.NoMemory": 1}}

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, errback=self.failed)
        if response.url.endswith("/c") and self.settings["FAIL"] != "download":
            raise {"callback": MemoryError, "other": ValueError}[self.settings["FAIL"]]

    def failed(self, failure):
        self.logger.info("took care of it")


class NoMemory:
    @classmethod
    def from_crawler(cls, crawler):
        self = cls()
        self.fail = crawler.settings["FAIL"] == "download"
        return self

    def process_request(self, request, spider=None):
        if self.fail and request.url.endswith("/c"):
            raise MemoryError


class Renamed(Follow):
    name = "renamed"
    custom_settings = {"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, callback=self.parse_more)

    def parse_more(self, response):
        pass


class RenamedLater(scrapy.Spider):
    name = "renamed"


class Rules(CrawlSpider):
    name = "rules"
    rules = [Rule(LinkExtractor(), callback="parse_it", follow=True)]

    def parse_it(self, response):
        yield {"url": response.url}


class Again(Follow):
    # A downloader middleware returns the very same request once.
    name = "again"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {"spiders.OnceMore": 1}}


class OnceMore:
    def process_response(self, request, response, spider=None):
        if "once" in request.meta:
            return response
        request.meta["once"] = True
        request.dont_filter = True
        return request


class Broken(Follow):
    name = "broken"

    def parse(self, response):
        yield from super().parse(response)
        raise ValueError("on purpose")


class Idle(Follow):
    # Feeds itself when it is idle.
    name = "idle"

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.fed = False
        crawler.signals.connect(spider.feed, scrapy.signals.spider_idle)
        return spider

    def feed(self):
        if not self.fed:
            self.fed = True
            self.crawler.engine.crawl(Request(self.start_urls[0] + "fed"))
            raise scrapy.exceptions.DontCloseSpider
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES) as (base, requested):
        yield Site(folder, base, requested)


WHERE = pytest.mark.parametrize("where", [[], [JOB]], ids=["memory", "job"])
ONE = "CONCURRENT_REQUESTS=1"
AGAIN = "BLOOMDUPE_START_REQUESTS=again"


def total(stats: dict[str, Any], *names: str) -> list[int]:
    return [stats.get(name, 0) for name in names]


@WHERE
def test_a_crawl_is_complete_and_its_stats_are_true(
    site: Site, where: list[str]
) -> None:
    stats = site.crawl("Follow", *where)
    assert sorted(site.take()) == sorted(PAGES)
    place = "disk" if where else "memory"
    names = [
        f"scheduler/{verb}{of}"
        for verb in ("enqueued", "dequeued")
        for of in ("", f"/{place}")
    ]
    assert total(stats, *names) == [13] * 4
    assert stats["dupefilter/filtered"] == 12
    assert stats["finish_reason"] == "finished"
    assert total(stats, "bloomdupe/pending", "bloomdupe/unfinished") == [0, 0]


@WHERE
def test_requests_come_back_as_they_were(site: Site, where: list[str]) -> None:
    # A connection may break, which is none of our business here.
    stats = site.crawl("Everything", "ROBOTSTXT_OBEY=0", "RETRY_ENABLED=1", *where)
    assert stats["intact"] == 5, stats["log"]
    assert stats["failed"] == 1
    assert "scheduler/unserializable" not in stats


def test_requests_come_back_from_the_disk_as_they_were(site: Site) -> None:
    page = "CLOSESPIDER_PAGECOUNT=1"
    for _ in range(5):
        stats = site.crawl("Everything", JOB, page, ONE)
        assert "spider_exceptions/count" not in stats, stats["log"]
    stats = site.crawl("Everything", JOB)
    assert stats["intact"] == 1, stats["log"]
    assert stats["finish_reason"] == "finished"


@pytest.mark.parametrize(
    "reactor",
    [
        "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "twisted.internet.epollreactor.EPollReactor",
    ],
)
def test_a_crawl_works_on_both_kinds_of_reactor(site: Site, reactor: str) -> None:
    stats = site.crawl("Follow", JOB, f"TWISTED_REACTOR={reactor}")
    assert sorted(site.take()) == sorted(PAGES)
    assert stats["bloomdupe/unfinished"] == 0


def test_closed_early_it_goes_on_without_fetching_anything_twice(site: Site) -> None:
    stats = site.crawl("Follow", JOB, ONE, "CLOSESPIDER_PAGECOUNT=4")
    assert stats["finish_reason"] == "closespider_pagecount"
    assert stats["bloomdupe/pending"] > 0
    first = site.take()
    stats = site.crawl("Follow", JOB)
    assert stats["bloomdupe/start_requests_skipped"] == 1
    assert sorted(first + site.take()) == sorted(PAGES)
    assert "Resuming crawl (" in stats["log"]


def test_a_new_round_fetches_its_start_and_what_is_new(
    site: Site,
) -> None:
    site.crawl("Follow", JOB)
    site.take()
    site.crawl("Follow", JOB, AGAIN, starts=("/", "/new", "/"))
    assert sorted(site.take()) == ["/", "/", "/new"]


def test_start_requests_that_are_new_are_work_for_a_finished_job(site: Site) -> None:
    site.crawl("Follow", JOB)
    site.take()
    stats = site.crawl("Follow", JOB, starts=("/", "/new"))
    assert site.take() == ["/new"]
    assert stats["bloomdupe/runs"] == 2
    stats = site.crawl("Follow", JOB, starts=("/", "/new"))
    assert site.take() == []
    assert stats["bloomdupe/runs"] == 2, "a run that has done nothing is none"


def test_interrupted_after_finishing_the_new_round_goes_on(site: Site) -> None:
    starts = ("/a", "/b", "/c", "/d")
    site.crawl("Follow", JOB, starts=starts)
    site.take()
    site.crawl("Follow", JOB, ONE, AGAIN, "CLOSESPIDER_PAGECOUNT=2", starts=starts)
    first = site.take()
    assert len(first) < 4
    site.crawl("Follow", JOB, AGAIN, starts=starts)
    assert sorted(first + site.take()) == list(starts)


@pytest.mark.parametrize(
    ("policy", "requested"),
    [("always", ["/", "/"]), ("again", ["/", "/"]), ("resume", ["/"])],
)
def test_start_requests_by_setting(
    site: Site, policy: str, requested: list[str]
) -> None:
    for _ in range(2):
        site.crawl("Follow", JOB, f"BLOOMDUPE_START_REQUESTS={policy}")
    assert [path for path in site.take() if path == "/"] == requested


def test_a_request_that_cannot_be_stored_keeps_its_parent(site: Site) -> None:
    """Killed while only its children are under way, the parent is fetched again."""
    options = [JOB, "BLOOMDUPE_CHECKPOINT_INTERVAL=0.05"]
    process = site.start("Unstorable", *options, ONE, "DOWNLOAD_DELAY=0.4")
    deadline = time.monotonic() + 30
    while len(site.requested) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.communicate()
    first = site.take()
    assert first[0] == "/"
    stats = site.crawl("Unstorable", *options)
    assert stats["finish_reason"] == "finished"
    second = site.take()
    assert set(first) | set(second) == set(PAGES)
    assert "/" in second, "the parent of what was lost was not fetched again"
    assert stats["scheduler/unserializable"] >= 1
    assert stats["log"].count("WARNING: <GET") == 1
    assert "cannot be stored: <function Unstorable.parse.<locals>" in stats["log"]
    assert "after a crash that one is fetched again" in stats["log"]
    assert stats["bloomdupe/unfinished"] == 0


def test_only_the_parent_of_what_cannot_be_stored_is_kept(site: Site) -> None:
    options = [JOB, "BLOOMDUPE_CHECKPOINT_INTERVAL=0.05"]
    starts = ("/a", "/b")
    process = site.start("OneParent", *options, "KILL=1", starts=starts)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert sorted(site.take()) == ["/a", "/b", "/c"]
    with BloomFilter.open(site.folder / "job/bloomdupe") as seen:
        owed = Frontier(seen)
        assert owed.pending == 1
        entry = owed.lease()
        assert entry is not None
        assert entry.payload is not None
        assert url_of(entry.payload) == site.base + "/a"


def test_a_filter_that_is_full_when_requests_are_settled_stops_the_crawl(
    site: Site,
) -> None:
    """What cannot be stored is marked when it is done, between two checkpoints."""
    options = [JOB, ONE, "BLOOMDUPE_EXPECTED_URLS=3", "DOWNLOAD_DELAY=0.1"]
    options += ["BLOOMDUPE_CHECKPOINT_INTERVAL=0.01"]
    stats = site.crawl("Leaves", *options, "BLOOMDUPE_GROWTH=error")
    first = site.take()
    assert stats["finish_reason"] == "filter_full"
    assert "Traceback" not in stats["log"]
    assert stats["log"].count("The crawl stops") == 1
    stats = site.crawl("Leaves", *options)
    assert stats["finish_reason"] == "finished"
    assert set(first + site.take()) == {"/", "/a", "/b", "/c", "/d", "/e", "/f"}


def test_a_request_whose_callback_is_gone_is_kept_and_named(site: Site) -> None:
    site.crawl("Renamed", JOB)
    with BloomFilter.open(site.folder / "job/bloomdupe") as seen:
        waiting = Frontier(seen).pending
    assert waiting > 1
    stats = site.crawl("RenamedLater", JOB)
    assert stats["bloomdupe/unrestorable"] == waiting
    assert "no method 'parse_more'" in stats["log"]
    assert f"{site.base}/b" in stats["log"]
    with BloomFilter.open(site.folder / "job/bloomdupe") as seen:
        assert Frontier(seen).pending == waiting


def test_pickles_are_refused_unless_asked_for(site: Site) -> None:
    pickles = "BLOOMDUPE_SERIALIZER=pickle"
    code = SPIDERS.replace('(1, {2}, b"3", 2**70, None)', "complex(1, 2)")
    (site.folder / "spiders.py").write_text(code)
    stats = site.crawl("Everything", JOB, pickles, ONE, "CLOSESPIDER_PAGECOUNT=1")
    assert "scheduler/unserializable" not in stats
    stats = site.crawl("Everything", JOB)
    assert stats["bloomdupe/unrestorable"] == 1
    assert "it is a pickle" in stats["log"]
    stats = site.crawl("Everything", JOB, pickles)
    assert stats["intact"] == 5


def test_a_crawl_spider_works(site: Site) -> None:
    stats = site.crawl("Rules", JOB, ONE, "CLOSESPIDER_PAGECOUNT=3")
    first = site.take()
    stats = site.crawl("Rules", JOB)
    assert sorted(first + site.take()) == sorted(PAGES)
    assert "scheduler/unserializable" not in stats


def test_the_same_object_scheduled_again_is_another_request(site: Site) -> None:
    stats = site.crawl("Again", JOB)
    assert sorted(site.take()) == sorted([*PAGES, *PAGES])
    assert stats["bloomdupe/unfinished"] == 0
    assert stats["bloomdupe/pending"] == 0


def test_a_callback_that_raises_is_done(site: Site) -> None:
    stats = site.crawl("Broken", JOB)
    assert sorted(site.take()) == sorted(PAGES)
    assert stats["spider_exceptions/ValueError"] == 13
    assert stats["bloomdupe/unfinished"] == 0


def test_a_spider_may_feed_itself_when_idle(site: Site) -> None:
    site.crawl("Idle", JOB)
    assert sorted(site.take()) == sorted([*PAGES, "/fed"])


def test_with_a_dupefilter_of_ones_own_the_weaker_promise_is_said(site: Site) -> None:
    own = "DUPEFILTER_CLASS=scrapy.dupefilters.RFPDupeFilter"
    stats = site.crawl("Follow", JOB, own, ONE, "CLOSESPIDER_PAGECOUNT=4")
    first = site.take()
    assert stats["log"].count("keeps its marks apart") == 1
    site.crawl("Follow", JOB, own)
    assert set(first + site.take()) == set(PAGES)


def test_a_job_begun_with_scrapys_scheduler_is_refused(site: Site) -> None:
    scrapys = "SCHEDULER=scrapy.core.scheduler.Scheduler"
    site.crawl("Follow", JOB, scrapys, ONE, "CLOSESPIDER_PAGECOUNT=2")
    process = site.start("Follow", JOB)
    _, log = process.communicate(timeout=60)
    assert "only Scrapy's own scheduler can see" in log
    assert "requests.queue" in log
    site.crawl("Follow", JOB, scrapys)
    assert sorted(set(site.take())) == sorted(PAGES)


def test_a_job_begun_with_ours_is_refused_by_scrapys(site: Site) -> None:
    site.crawl("Follow", JOB, ONE, "CLOSESPIDER_PAGECOUNT=2")
    process = site.start("Follow", JOB, "SCHEDULER=scrapy.core.scheduler.Scheduler")
    _, log = process.communicate(timeout=60)
    assert "only bloomdupe.FrontierScheduler can see" in log
    site.crawl("Follow", JOB)
    assert sorted(site.take()) == sorted(PAGES)


def test_a_second_process_on_the_job_is_refused(site: Site) -> None:
    first = site.start("Follow", JOB, "DOWNLOAD_DELAY=60")
    deadline = time.monotonic() + 30
    while not site.requested:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = site.start("Follow", JOB)
    _, log = second.communicate(timeout=60)
    assert f"in use by process {first.pid}" in log
    first.kill()
    first.communicate()
    stats = site.crawl("Follow", JOB)
    assert "the last run was killed" in stats["log"]
    assert set(site.take()) == set(PAGES)


def test_nothing_is_lost_where_nothing_can_be_stored(site: Site) -> None:
    """Children of children: none is done before its own children are."""
    code = SPIDERS.replace("if len(href) == 2:", "if True:")
    (site.folder / "spiders.py").write_text(code)
    for pages in (3, 5, 8):
        site.crawl("Unstorable", JOB, ONE, f"CLOSESPIDER_PAGECOUNT={pages}")
    stats = site.crawl("Unstorable", JOB)
    assert stats["finish_reason"] == "finished"
    assert set(site.take()) == set(PAGES)
    assert stats["bloomdupe/unfinished"] == 0


MANY_HOSTS = [JOB, "CLOSESPIDER_PAGECOUNT=50", "HTTPERROR_ALLOW_ALL=1"]
FEW_FILES = "import resource as r\nr.setrlimit(r.RLIMIT_NOFILE, (256, 256))\n"


def test_many_hosts_need_no_more_files(site: Site) -> None:
    stats = site.crawl("Hosts", *MANY_HOSTS, before=FEW_FILES)
    assert stats["finish_reason"] == "closespider_pagecount"
    assert stats["scheduler/enqueued"] == 2001
    assert stats["bloomdupe/pending"] > 1900
    assert "Traceback" not in stats["log"]


def test_many_hosts_need_more_files_in_scrapys_queue(site: Site) -> None:
    """The control: the limit is one."""
    queue = "SCHEDULER_PRIORITY_QUEUE=scrapy.pqueues.DownloaderAwarePriorityQueue"
    with site.start("Hosts", *MANY_HOSTS, queue, "ADDONS={}", before=FEW_FILES) as p:
        assert p.stderr is not None
        assert any("Too many open files" in line for line in p.stderr)
        p.kill()


@pytest.mark.parametrize("fail", ["callback", "download"])
def test_out_of_memory_the_crawl_stops_and_the_page_is_owed(
    site: Site, fail: str
) -> None:
    stats = site.crawl("Forgetful", JOB, f"FAIL={fail}")
    assert stats["finish_reason"] == "out_of_memory"
    assert "Memory has run out, so the crawl stops: no limit" in stats["log"]
    first = site.take()
    assert len(first) < len(PAGES)
    site.crawl("Forgetful", JOB, "FAIL=other")
    second = site.take()
    assert set(first + second) == set(PAGES)
    assert "/c" in second


def test_a_callback_with_another_error_is_done(site: Site) -> None:
    """The control."""
    site.crawl("Forgetful", JOB, ONE, "FAIL=other", "CLOSESPIDER_ERRORCOUNT=1")
    first = site.take()
    assert "/c" in first
    site.crawl("Forgetful", JOB, "FAIL=other")
    assert "/c" not in site.take()


def test_when_the_disk_is_full_the_crawl_stops_and_goes_on_later(site: Site) -> None:
    site.crawl("Follow", JOB, ONE, "CLOSESPIDER_PAGECOUNT=2")
    first = site.take()
    store = site.folder / "job/bloomdupe/data.mdb"
    # A limit on the size of files stands in for a full disk. The page is for the note
    # that there is another run.
    limited = (
        "import resource, signal, runpy, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"size = {store.stat().st_size + 4096}\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))\n"
    )
    interval = "BLOOMDUPE_CHECKPOINT_INTERVAL=0.01"
    process = site.start(
        "Follow", JOB, ONE, "DOWNLOAD_DELAY=0.1", interval, before=limited
    )
    _, log = process.communicate(timeout=60)
    assert "Closing spider (frontier_disk_full)" in log, log
    assert "the store of the crawl failed" in log.lower()
    assert "run the same command again" in log
    second = site.take()
    site.crawl("Follow", JOB)
    assert set(first + second + site.take()) == set(PAGES)


def test_a_start_request_that_comes_twice_is_owed_twice(site: Site) -> None:
    """Stopped between the two, the second is not taken for the first."""
    process = site.start("Twice", JOB, "BLOOMDUPE_CHECKPOINT_INTERVAL=0.01", "KILL=1")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert site.take() == ["/a"]
    site.crawl("Twice", JOB)
    assert site.take() == ["/a"]
    site.crawl("Twice", JOB)
    assert site.take() == []


def test_the_telnet_console_knows_how_many_wait(site: Site) -> None:
    stats = site.crawl("Status", JOB)
    lines = [line for line in stats["log"].splitlines() if "scheduler" in line]
    assert any(re.search(r"scheduler\.dqs or \[\]\)\s*: 6$", line) for line in lines)
    assert any(re.search(r"scheduler\.mqs\)\s*: 0$", line) for line in lines)


@pytest.mark.parametrize("direct", [True, False])
def test_a_page_whose_callback_closes_the_crawl_is_owed(
    site: Site, direct: bool
) -> None:
    """What it has yielded counts, what it has not yielded comes in the next run."""
    options = [JOB, f"BLOOMDUPE_DIRECT_OUTPUT={direct}"]
    options += ['FEEDS={"items.jsonl": {"format": "jsonlines"}}']
    path = site.folder / "items.jsonl"

    def items() -> list[str]:
        return [json.loads(line)["page"] for line in path.read_text().splitlines()]

    stats = site.crawl("Closes", *options, "CLOSE=1")
    assert stats["finish_reason"] == "enough"
    assert items() == ["/ 0", "/ 1"]
    assert stats["bloomdupe/total_pages"] == 1
    stats = site.crawl("Closes", *options)
    assert stats["finish_reason"] == "finished"
    assert Counter(items()) == Counter(
        f"{page} {n}" for page in PAGES for n in range(3)
    )
    assert stats["bloomdupe/total_pages"] == len(PAGES)
    assert stats["bloomdupe/total_items"] == 3 * len(PAGES)


def test_a_crawl_that_cannot_open_leaves_the_state_alone(site: Site) -> None:
    """Scrapy would empty JOBDIR/spider.state, and fail to read it in the next run."""
    state = site.folder / "job" / "spider.state"
    stats = site.crawl("Follow", JOB, "CLOSESPIDER_PAGECOUNT=2")
    before = state.read_bytes()
    assert before
    place = site.folder / "job" / "bloomdupe"
    place.rename(site.folder / "kept")
    (site.folder / "elsewhere").mkdir()
    place.with_name("bloomdupe.creating").symlink_to(site.folder / "elsewhere")
    process = site.start("Follow", JOB)
    _, log = process.communicate(timeout=60)
    assert "is a link or a file" in log
    assert state.read_bytes() == before
    place.with_name("bloomdupe.creating").unlink()
    (site.folder / "kept").rename(place)
    stats = site.crawl("Follow", JOB)
    assert stats["finish_reason"] == "finished"
    assert "EOFError" not in stats["log"]


GONE = """
import atexit, os, threading
import bloomdupe.crawl.progress.watch as watch
watch.GLANCE = 0.1
def remove():
    while not os.path.exists("job/bloomdupe/data.mdb"):
        pass
    threading.Event().wait(1)
    os.unlink("job/bloomdupe/data.mdb")
threading.Thread(target=remove, daemon=True).start()
"""


@pytest.mark.parametrize("interval", ["0.2", "3600"], ids=["checkpoint", "look"])
def test_a_store_that_is_gone_ends_the_crawl(site: Site, interval: str) -> None:
    """Whoever looks first finds it: a checkpoint, or the watch over the crawl."""
    options = [JOB, f"BLOOMDUPE_CHECKPOINT_INTERVAL={interval}", "DOWNLOAD_DELAY=0.3"]
    options += ["CONCURRENT_REQUESTS=1", "CLOSESPIDER_TIMEOUT=30"]
    process = site.start("Follow", *options, before=GONE)
    _, log = process.communicate(timeout=60)
    assert "The store of the crawl failed, so the crawl stops" in log
    assert re.search(r"Closing spider \(frontier_\w+\)", log)
    assert "Traceback" not in log


def test_half_a_file_of_scrapys_state_is_not_read(site: Site) -> None:
    """What a run leaves behind that is killed while Scrapy writes the file."""
    site.crawl("Follow", JOB, "CLOSESPIDER_PAGECOUNT=2")
    state = site.folder / "job" / "spider.state"
    whole = state.read_bytes()
    state.write_bytes(whole[: len(whole) // 2])
    stats = site.crawl("Follow", JOB)
    assert stats["finish_reason"] == "finished"
    assert "Traceback" not in stats["log"]


@pytest.mark.parametrize("spider", ["LateStart", "Currencies", "StartCurrencies"])
def test_with_a_common_fingerprint_each_comes_once(site: Site, spider: str) -> None:
    """Requests that differ in their arguments only, in an order that changes."""
    options = [JOB, "BLOOMDUPE_CHECKPOINT_INTERVAL=0.01"]
    options += ['FEEDS={"items.jsonl": {"format": "jsonlines"}}']
    process = site.start(spider, *options, "KILL=1", "FIRST=ABCDEF")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    stats = site.crawl(spider, *options, "FIRST=FEDCBA")
    assert stats["finish_reason"] == "finished"
    lines = (site.folder / "items.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["name"] for line in lines) == list("ABCDEF")


def test_closed_earlier_the_second_time_no_item_comes_again(site: Site) -> None:
    options = [JOB, 'FEEDS={"items.jsonl": {"format": "jsonlines"}}']
    for quota in (4, 2, 99):
        site.crawl("Quota", *options, f"QUOTA={quota}")
    lines = (site.folder / "items.jsonl").read_text().splitlines()
    assert [json.loads(line)["n"] for line in lines] == list(range(6))
