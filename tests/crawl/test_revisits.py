"""Pages that come again, in real crawls; the judge is the server's log."""

from __future__ import annotations

import http.server
import json
import math
import signal
import threading
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from page_server import Server, running
from scrapy import Request, Spider
from scrapy.settings import Settings
from small_site import JOB, Site

from bloomdupe.crawl.later.change_rate import ChangeRate, best_interval
from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.crawl.requests.visits import Look, Visit
from bloomdupe.errors import SettingError
from bloomdupe.settings import JobSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

SPIDERS = """
import scrapy
from scrapy import FormRequest, Request
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from bloomdupe import new_links


class Site(scrapy.Spider):
    name = "site"

    def parse(self, response, **more):
        self.crawler.stats.inc_value("parsed" + response.url[len(self.base):])
        links = response.css("a::attr(href)").getall()
        if links:
            yield {"page": response.url, "links": len(links)}
        else:
            yield {"page": response.url, "text": response.text, **more}
        for url in new_links(self, map(response.urljoin, links)):
            yield Request(url, errback=self.failed)

    def failed(self, failure):
        self.crawler.stats.inc_value("failed")

    @property
    def base(self):
        return self.start_urls[0].rstrip("/")


class Rules(CrawlSpider):
    name = "rules"
    rules = [Rule(LinkExtractor(), callback="page", errback="failed", follow=True)]

    def page(self, response):
        yield {"page": response.url, "text": response.text}

    def failed(self, failure):
        self.crawler.stats.inc_value("failed")


class Named(scrapy.Spider):
    # The page is another one each time, but for what counts.
    name = "named"

    def parse(self, response):
        response.meta["bloomdupe_digest"] = response.text.split()[0]
        yield {"text": response.text}


class Chosen(scrapy.Spider):
    # By meta: a form that is redirected, a page that is asked for twice, and a child
    # that has a copy of the meta, but wants to come once.
    name = "chosen"

    async def start(self):
        base = self.start_urls[0]
        again = {"bloomdupe_revisit": 0.5}
        yield FormRequest(base + "form", formdata={"a": "1"}, meta=again, priority=3,
                          cb_kwargs={"argument": "kept"})
        for _ in range(3):
            yield Request(base + "twice", meta=again, dont_filter=True)
        yield Request(base + "bad", meta={"bloomdupe_revisit": "often"})

    def parse(self, response, argument=None):
        yield {"page": response.url, "argument": argument}
        once = {**response.meta, "bloomdupe_revisit": None}
        yield response.follow("/child", meta=once)


class Clumsy(scrapy.Spider):
    # Its callback fails at the first visit of each page. Later it asks for another
    # page by a copy of the request.
    name = "clumsy"
    visits = {}

    def parse(self, response):
        number = self.visits[response.url] = self.visits.get(response.url, 0) + 1
        if number == 1:
            raise ValueError("not yet")
        yield {"text": response.text}
        url = response.urljoin("/older")
        yield response.request.replace(url=url, callback=self.parse_older)

    def parse_older(self, response):
        yield {"text": response.text}
"""


class Changing(Server):
    """A server that knows how often each of its pages was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.count: Counter[str] = Counter()
        self.log: defaultdict[str, list[float]] = defaultdict(list)
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        """Method, path, headers."""

    def answer(
        self, path: str, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], str]:
        """Return status, headers and body."""
        number = self.count[path]
        if path == "/":
            links = ["same", "etag", "date", "news", "moved", "flaky", "away"]
            links += [f"new{n}" for n in range(min(number, 2))]
            return 200, {}, "".join(f"<a href='/{link}'>x</a>" for link in links)
        if path == "/etag":
            known = headers.get("If-None-Match") == '"v1"'
            return (304 if known else 200), {"ETag": '"v1"'}, "" if known else "etag"
        if path == "/date":
            date = "Wed, 21 Oct 2015 07:28:00 GMT"
            known = headers.get("If-Modified-Since") == date
            return (
                (304 if known else 200),
                {"Last-Modified": date},
                "" if known else "d",
            )
        if path == "/dated":  # another one each time, with the same date
            return 200, {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}, f"{number}"
        if path == "/news":
            return 200, {}, f"news {number // 2}"
        if path in ("/moved", "/form"):
            return 302, {"Location": "/target"}, ""
        if path == "/flaky":
            return (500 if number % 2 else 200), {}, "flaky"
        if path == "/away":
            return (404 if number else 200), {}, "away"
        if path == "/clock":
            return 200, {}, f"{number // 3} {number}"
        return 200, {}, path


class Handler(http.server.BaseHTTPRequestHandler):
    server: Changing

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server = self.server
        with server.lock:
            status, headers, body = server.answer(self.path, dict(self.headers))
            server.count[self.path] += 1
            server.log[self.path].append(time.time())
            server.asked.append((self.command, self.path, dict(self.headers)))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_POST = do_GET  # noqa: N815 - as http.server wants it

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Changing:
    return Changing()


@pytest.fixture
def site(tmp_path: Path, server: Changing) -> Iterator[Site]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "spiders.py").write_text(SPIDERS)
    with running(server) as base:
        yield Site(folder, base, [])


FEED = 'FEEDS={"items.jsonl": {"format": "jsonlines"}}'
FAST = "BLOOMDUPE_CHECKPOINT_INTERVAL=0.05"


def every(seconds: float | str) -> str:
    return f"BLOOMDUPE_REVISIT={json.dumps([['.*', seconds]])}"


def items(site: Site) -> list[dict[str, Any]]:
    file = site.folder / "items.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()]


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


@pytest.mark.parametrize("where", [[], [JOB]], ids=["memory", "job"])
def test_pages_come_again_and_only_what_has_changed_counts(
    site: Site, server: Changing, where: list[str]
) -> None:
    stats = site.crawl("Site", every(0.5), "CLOSESPIDER_PAGECOUNT=60", FEED, *where)
    for path in (
        "/",
        "/same",
        "/etag",
        "/date",
        "/news",
        "/moved",
        "/target",
        "/flaky",
    ):
        assert server.count[path] >= 3, path
        assert min(gaps(server.log[path])) >= 0.5, path
    texts = Counter(item.get("text") for item in items(site) if "text" in item)
    assert all(count == 1 for count in texts.values()), texts
    assert {
        "/same",
        "etag",
        "d",
        "news 0",
        "news 1",
        "/target",
        "/new0",
    } <= texts.keys()
    # Nobody is told that nothing has changed, neither callback nor errback.
    assert stats["parsed/etag"] == stats["parsed/date"] == 1
    assert stats["downloader/response_status_count/304"] >= 4
    errors = stats.get("downloader/response_status_count/500", 0)
    assert stats["failed"] <= errors + server.count["/away"]
    assert stats["bloomdupe/revisits_unchanged"] > stats["bloomdupe/revisits_changed"]
    assert stats["bloomdupe/items_unchanged"] >= 2
    if where:  # and the job is never finished
        assert stats["bloomdupe/later"] >= 5


def test_after_a_kill_every_page_goes_on_coming(site: Site, server: Changing) -> None:
    interval = 1.0
    settings = [every(interval), JOB, FEED, FAST]
    process = site.start("Site", *settings)
    while server.count["/new1"] < 1:
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.6)  # for checkpoints; some pages are due by then, others under way
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = +server.count
    site.crawl("Site", *settings, "CLOSESPIDER_PAGECOUNT=25")
    for path in ("/", "/same", "/news", "/etag", "/new1"):
        assert server.count[path] > before[path], path
    texts = Counter(item.get("text") for item in items(site) if "text" in item)
    assert all(count == 1 for count in texts.values()), texts


def test_a_job_with_pages_that_come_again_waits(site: Site) -> None:
    settings = [every(60), JOB, "BLOOMDUPE_WAIT=0"]
    stats = site.crawl("Rules", *settings)
    assert stats["finish_reason"] == "waiting"
    assert stats["bloomdupe/later"] == 8


def test_rules_of_a_crawl_spider_hold_again(site: Site) -> None:
    always = "BLOOMDUPE_REVISIT_ITEMS=always"
    site.crawl("Rules", every(0.5), JOB, FEED, always, "CLOSESPIDER_PAGECOUNT=40")
    texts = Counter(item["text"] for item in items(site))
    assert texts["news 1"] >= 1
    assert texts["/new0"] >= 2
    assert texts["/same"] >= 3
    assert texts["etag"] == 1  # 304 has no item


def test_a_spider_names_what_counts(site: Site) -> None:
    site.crawl("Named", every(0.2), FEED, "CLOSESPIDER_PAGECOUNT=9", starts=("/clock",))
    assert [item["text"] for item in items(site)][:2] == ["0 0", "1 3"]


def test_a_visit_whose_callback_failed_does_not_count(
    site: Site, server: Changing
) -> None:
    rules = 'BLOOMDUPE_REVISIT=[["/(etag|same)$", 0.3]]'
    settings = [rules, JOB, FEED, "CLOSESPIDER_PAGECOUNT=8"]
    site.crawl("Clumsy", *settings, starts=("/etag", "/same"))
    texts = Counter(item["text"] for item in items(site))
    assert (texts["etag"], texts["/same"]) == (1, 1)
    asked = [headers for _, path, headers in server.asked if path == "/etag"]
    # It is asked for as a whole, and known only from then on.
    assert ["If-None-Match" in headers for headers in asked][:3] == [False, False, True]


def test_what_a_page_is_asked_with_stays_there(site: Site, server: Changing) -> None:
    rules = 'BLOOMDUPE_REVISIT=[["/dated$", 0.3]]'
    site.crawl("Clumsy", rules, JOB, "CLOSESPIDER_PAGECOUNT=5", starts=("/dated",))
    asked = {path: headers for _, path, headers in server.asked}
    assert "If-Modified-Since" in asked["/dated"]
    assert "If-Modified-Since" not in asked["/older"]


def test_a_page_that_comes_again_is_not_taken_up_from_the_ledger(
    site: Site, server: Changing
) -> None:
    settings = [every(3_600), JOB, "BLOOMDUPE_WAIT=0"]
    site.crawl("Clumsy", *settings, starts=("/same",))
    retried = "BLOOMDUPE_RETRY_FAILED=callback"
    stats = site.crawl("Clumsy", *settings, retried, starts=("/same",))
    assert stats["bloomdupe/retried_failures"] == 0
    assert stats["bloomdupe/later"] == 1
    assert server.count["/same"] == 1


def test_a_request_says_itself_whether_it_comes_again(
    site: Site, server: Changing
) -> None:
    stats = site.crawl("Chosen", JOB, FEED, "CLOSESPIDER_PAGECOUNT=16", starts=("/",))
    forms = [how for how, path, _ in server.asked if path == "/form"]
    assert len(forms) >= 2
    assert set(forms) == {"POST"}  # not what it was redirected to
    assert min(gaps(server.log["/form"])) >= 0.5
    # Asked for three times, it comes again once.
    times = server.log["/twice"]
    assert len(times) <= 3 + (times[-1] - times[0]) / 0.5
    assert server.count["/child"] == 1
    assert "/bad> is refused: meta['bloomdupe_revisit'] = 'often'" in stats["log"]
    assert {item["argument"] for item in items(site) if "target" in item["page"]} == {
        "kept"
    }


def test_adaptive_is_ahead_of_uniform_and_near_the_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With as many visits, in a simulated month, in the real frontier."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    from freshness import Page, compare

    results = compare([Page(number, 30) for number in range(60)], 30, 2 * 3_600)
    assert results["adaptive"].visits > 60 * 20
    visits = [result.visits / results["adaptive"].visits for result in results.values()]
    assert visits == pytest.approx([1] * 4, abs=0.05)
    fresh = {name: result.fresh for name, result in results.items()}
    assert fresh["uniform"] + 0.02 < fresh["adaptive"] <= fresh["optimum"] + 0.005
    assert fresh["adaptive"] > 0.95 * fresh["optimum"]


def test_the_estimate_is_that_of_cho_and_garcia_molina() -> None:
    for visits, changes in ((10, 1), (10, 9), (40, 20), (7, 7)):
        rate = ChangeRate(changes, changes * DAY, (visits - changes) * DAY)
        expected = -math.log((visits - changes + 0.5) / (visits + 0.5)) / DAY
        assert rate.per_second == pytest.approx(expected)


def test_no_other_interval_brings_more_for_the_price() -> None:
    """Against a search among other intervals; and the price is the same for all."""
    least = 3_600.0
    for days in (0.2, 1, 7, 30, 300):
        rate = 1 / (days * DAY)
        best = best_interval(rate, least)
        # What one visit is worth, in fresh seconds a second, where this one is best.
        worth = (1 - (1 + rate * best) * math.exp(-rate * best)) / rate

        def gain(interval: float, rate: float = rate, worth: float = worth) -> float:
            fresh = (1 - math.exp(-rate * interval)) / (rate * interval)
            return fresh - worth / interval

        others = [best * 1.01**step for step in range(-300, 300)]
        assert gain(best) >= max(map(gain, others)) - 1e-12
        assert worth == pytest.approx(least * 0.29843, rel=1e-3)  # the same for all


# What is known of a page

DAY = 86_400.0
BOUNDS = (3_600.0, 30 * DAY)


def look(when: float, status: int = 200, digest: bytes = b"1") -> Look:
    return Look(when, status, digest)


def test_what_is_gone_comes_ever_more_rarely() -> None:
    visit = Visit().after(look(0), DAY, BOUNDS)
    intervals = []
    for _ in range(14):
        visit = visit.after(look(1, 404), DAY, BOUNDS)
        intervals.append(visit.interval / DAY)
    assert intervals[:6] == [1, 1, 2, 4, 8, 16]
    assert intervals[-3:] == [365, 365, 365]
    visit = visit.after(look(2), DAY, BOUNDS)
    assert (visit.interval, visit.gone) == (DAY, 0)


def test_a_failure_changes_nothing() -> None:
    visit = Visit().after(look(0), "adaptive", BOUNDS)
    for status in (0, 500, 503, 403):
        assert visit.after(look(9, status), "adaptive", BOUNDS) == visit


def test_adaptive_is_sooner_after_a_change_and_later_without() -> None:
    now, visit = 0.0, Visit().after(look(0), "adaptive", BOUNDS)
    assert visit.interval == pytest.approx((3_600 * 30 * DAY) ** 0.5)
    for number, changed in enumerate([1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0] * 20):
        now += visit.interval
        digest = b"%d" % number if changed else visit.digest
        before, visit = visit, visit.after(look(now, 200, digest), "adaptive", BOUNDS)
        assert (
            (visit.interval <= before.interval)
            if changed
            else (visit.interval >= before.interval)
        )
        assert BOUNDS[0] <= visit.interval <= BOUNDS[1]
    for _ in range(400):
        now += visit.interval
        visit = visit.after(look(now, 304), "adaptive", BOUNDS)
    assert visit.interval == BOUNDS[1]
    for number in range(300):
        now += visit.interval
        visit = visit.after(look(now, 200, b"n%d" % number), "adaptive", BOUNDS)
    assert visit.interval == BOUNDS[0]


def test_not_modified_keeps_what_was_known() -> None:
    first = Look(0, 200, b"1", b'"v1"', b"date")
    visit = Visit().after(first, DAY, BOUNDS).after(look(DAY, 304, b""), DAY, BOUNDS)
    assert (visit.digest, visit.etag, visit.modified) == (b"1", b'"v1"', b"date")
    assert visit.visits == 2


# In a payload


@pytest.mark.parametrize("pickles", [False, True])
@pytest.mark.parametrize("depth", [None, 3])
def test_a_payload_carries_a_visit(pickles: bool, depth: int | None) -> None:
    serializer = Serializer(Spider("name"), pickles=pickles)
    meta: dict[str, Any] = {} if depth is None else {"depth": depth}
    if pickles:
        meta["object"] = 1j
    for headers in ({}, {"Referer": "https://a.example/b"}, {"X": "y"}):
        request = Request("https://a.example/c", headers=headers, meta=meta)
        payload = serializer.dump(request)
        assert serializer.visit_in(payload) is None
        for values in (Visit().values, Visit(9, 1.5, etag=b"\xff").values):
            carried = serializer.with_visit(payload, values)
            assert serializer.visit_in(carried) == values
            again = serializer.load(carried)
            assert again.to_dict() == request.to_dict()
            other = serializer.with_visit(carried, [1])
            assert serializer.visit_in(other) == [1]
            assert serializer.load(other).to_dict() == request.to_dict()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BLOOMDUPE_REVISIT", "often"),
        ("BLOOMDUPE_REVISIT", [".*"]),
        ("BLOOMDUPE_REVISIT", [("(", 5)]),
        ("BLOOMDUPE_REVISIT", [(".*", 0)]),
        ("BLOOMDUPE_REVISIT", [(".*", "daily")]),
        ("BLOOMDUPE_REVISIT_BOUNDS", (5, 4)),
        ("BLOOMDUPE_REVISIT_BOUNDS", "0,9"),
        ("BLOOMDUPE_REVISIT_ITEMS", "never"),
    ],
)
def test_settings_that_cannot_be_are_refused(name: str, value: object) -> None:
    with pytest.raises(SettingError, match=name):
        JobSettings.read(Settings({name: value}))
