"""Retries that wait, and slots that rest; the judge is the server's log."""

from __future__ import annotations

import http.server
import math
import signal
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from page_server import Server, running
from scrapy.settings import Settings
from small_site import JOB, Site

from bloomdupe import BloomFilter
from bloomdupe.crawl.later.growing_wait import GrowingWait
from bloomdupe.errors import SettingError
from bloomdupe.settings import JobSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

SPIDERS = """
import scrapy
from scrapy import Request
from scrapy.downloadermiddlewares.retry import get_retry_request


class Many(scrapy.Spider):
    name = "many"

    async def start(self):
        for number in range(self.settings.getint("PAGES")):
            slot = f"slot{number}" if self.settings.getbool("SLOTS") else None
            yield Request(f"{self.start_urls[0]}{number}", errback=self.lost,
                          meta={"download_slot": slot})

    def parse(self, response):
        yield {"page": response.url, "tries": response.meta.get("retry_times", 0)}

    def lost(self, failure):
        self.crawler.stats.inc_value("lost")


class Asks(scrapy.Spider):
    # A page that asks for patience with status 200, and its children. They have a
    # copy of its meta, and are no retries for that.
    name = "asks"

    def parse(self, response):
        if response.text == "not yet":
            return get_retry_request(response.request, spider=self, reason="not yet")
        return Request(response.urljoin("/child"), self.child, meta=response.meta,
                       dont_filter=True)

    def child(self, response):
        yield {"page": response.url}
"""


class Moody(Server):
    """A server that can be away, or refuse certain paths a few times."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.log: list[tuple[float, str, int]] = []
        """Unix time, path and status of each request; 0: no answer."""
        self.away_after = math.inf
        """Requests after which it goes away for ``away`` seconds."""
        self.away = 0.0
        self.back: float | None = None
        self.refusals: Counter[str] = Counter()
        self.status = 0
        """What it answers when it is away; 0: nothing."""
        self.not_yet = 0

    def judge(self, path: str) -> int:
        now = time.time()
        if self.back is None and len(self.log) >= self.away_after:
            self.back = now + self.away
        if self.back is not None and now < self.back:
            return self.status
        if self.refusals[path]:
            self.refusals[path] -= 1
            return 500
        return 200

    def times(self, path: str) -> list[float]:
        return [when for when, asked, _ in self.log if asked == path]

    def failed(self) -> list[float]:
        return [when for when, _, status in self.log if status in (0, 503)]


class Handler(http.server.BaseHTTPRequestHandler):
    server: Moody

    def do_GET(self) -> None:
        server = self.server
        with server.lock:
            status = server.judge(self.path)
            server.log.append((time.time(), self.path, status))
        if not status:
            self.close_connection = True
            return
        body = b"x"
        if server.not_yet:
            server.not_yet -= 1
            body = b"not yet"
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Moody:
    return Moody()


@pytest.fixture
def site(tmp_path: Path, server: Moody) -> Iterator[Site]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spiders.py").write_text(SPIDERS)
    with running(server) as base:
        yield Site(folder, base, [])


RETRY = "RETRY_ENABLED=1"
PAGES = "PAGES=300"
BACKOFF = "BLOOMDUPE_RETRY_BACKOFF=0.2,2,30"


def test_while_a_server_is_away_nothing_is_given_up(site: Site, server: Moody) -> None:
    server.away_after, server.away = 50, 3.0
    stats = site.crawl("Many", PAGES, RETRY, BACKOFF, JOB)
    assert stats["finish_reason"] == "finished"
    assert "retry/max_reached" not in stats
    served = Counter(path for _, path, status in server.log if status == 200)
    assert served == Counter(f"/{number}" for number in range(300))
    # What was under way when it went, and what took the places of that before the crawl
    # had heard of two failures; then probes, after rests of 0.1 s, 0.2 s ... at least.
    concurrency, probes = 8, 5
    assert len(server.failed()) <= 2 * concurrency + probes


def test_while_it_is_away_no_request_loses_its_tries(site: Site, server: Moody) -> None:
    """Not even if there are so few that each of them probes several times."""
    server.away_after, server.away, server.status = 0, 4.0, 503
    stats = site.crawl("Many", "PAGES=2", RETRY, "BLOOMDUPE_RETRY_BACKOFF=0.2,1.5,2")
    assert "retry/max_reached" not in stats
    assert stats["item_scraped_count"] == 2
    assert stats["bloomdupe/retries_not_counted"] >= 3


def test_stock_scrapy_gives_them_up(site: Site, server: Moody) -> None:
    """What the test above guards against."""
    server.away_after, server.away = 50, 5.0
    stats = site.crawl("Many", PAGES, RETRY, "ADDONS={}")
    assert stats["retry/max_reached"] > 0
    assert stats["lost"] == stats["retry/max_reached"]


def test_a_retry_waits_longer_each_time(site: Site, server: Moody) -> None:
    server.refusals["/0"] = 2
    stats = site.crawl("Many", "PAGES=1", RETRY, "BLOOMDUPE_RETRY_BACKOFF=[1, 1.5, 9]")
    first, second, third = server.times("/0")
    assert second - first >= 0.5
    assert third - second >= 0.75
    assert stats["item_scraped_count"] == 1


def test_a_retry_out_of_a_callback_waits_and_its_child_does_not(
    site: Site, server: Moody
) -> None:
    server.not_yet = 1
    stats = site.crawl("Asks", RETRY, "BLOOMDUPE_RETRY_BACKOFF=4,1,4", JOB)
    first, second = server.times("/")
    assert second - first >= 2
    assert server.times("/child")[0] - second < 2
    assert stats["item_scraped_count"] == 1


def test_a_page_that_is_broken_is_given_up_after_its_tries(
    site: Site, server: Moody
) -> None:
    server.refusals["/3"] = 1_000
    stats = site.crawl("Many", "PAGES=9", RETRY, "BLOOMDUPE_RETRY_BACKOFF=0.1,1,0.1")
    assert len(server.times("/3")) == 3
    assert stats["retry/max_reached"] == stats["lost"] == 1
    assert stats["item_scraped_count"] == 8


def test_a_crawl_of_a_dead_host_ends(site: Site, server: Moody) -> None:
    server.away_after, server.away = 0, math.inf
    stats = site.crawl("Many", "PAGES=20", RETRY, "BLOOMDUPE_RETRY_BACKOFF=0.1,1,0.1")
    assert stats["lost"] == 20
    assert "is taken for dead after 3 rests" in stats["log"]


def test_a_slot_rests_over_a_restart(site: Site, server: Moody) -> None:
    server.away_after, server.away = 0, math.inf
    backoff = "BLOOMDUPE_RETRY_BACKOFF=8,1,8"
    process = site.start("Many", "PAGES=20", RETRY, backoff, JOB)
    while len(server.log) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(1.5)  # for a checkpoint that holds it
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = len(server.log)
    server.away = 0.0
    server.back = time.time()
    stats = site.crawl("Many", "PAGES=20", RETRY, backoff, JOB)
    failed = server.log[before - 1][0]
    assert server.log[before][0] - failed >= 3.9
    assert stats["finish_reason"] == "finished"
    assert stats["bloomdupe/total_items"] == 20


@pytest.mark.parametrize(("known", "kept", "most"), [(10, 1_000, 10), (1_000, 7, 7)])
def test_what_is_known_of_slots_is_bounded(
    site: Site, server: Moody, known: int, kept: int, most: int
) -> None:
    server.away_after, server.away, server.status = 0, math.inf, 503
    few = "import bloomdupe.crawl.later.circuits as circuits\n"
    few += f"circuits.MOST_KNOWN, circuits.MOST_KEPT = {known}, {kept}\n"
    options = ["SLOTS=1", "RETRY_TIMES=1", RETRY, JOB]
    options += ["BLOOMDUPE_RETRY_BACKOFF=60,1,60", "CLOSESPIDER_TIMEOUT=5"]
    site.crawl("Many", "PAGES=40", *options, before=few)
    with BloomFilter.open(site.folder / "job/bloomdupe", readonly=True) as seen:
        record = seen.record("crawl")
    assert record is not None
    assert 0 < len(record["circuits"]) <= most


def test_waits_grow_by_the_factor_up_to_the_limit() -> None:
    for draw, share in ((lambda: 0.0, 0.5), (lambda: 1.0, 1.0)):
        growing = GrowingWait(2, 3, 60, draw)
        for failures, longest in (
            (1, 2),
            (2, 6),
            (3, 18),
            (4, 54),
            (5, 60),
            (9**9, 60),
        ):
            assert growing.seconds(failures) == pytest.approx(share * longest)
    assert GrowingWait(5, 1, 5).longest(10**6) == 5


@pytest.mark.parametrize(
    "value",
    ["1,2", (1, 2), (0, 2, 3), (1, 0.5, 3), (2, 2, 1), "a,b,c", 5, (1, 2, math.inf)],
)
def test_a_backoff_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(SettingError, match=r"BLOOMDUPE_RETRY_BACKOFF.*three numbers"):
        JobSettings.read(Settings({"BLOOMDUPE_RETRY_BACKOFF": value}))
