"""Pages that come again, in real crawls; the judge is the server's log."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from spiders.revisits import Chosen, Clumsy, ClumsyItems, Named, Pages, Rules
from support.crawl import Crawl, Run
from support.site import Answer, Page, Site, links
from support.site import Visit as Asked

from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.crawl.requests.visits import ChangeRate, Look, Visit, best_interval

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("feed")]

BOTH = pytest.mark.usefixtures("engine")

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"


def home(asked: Asked) -> str:
    """Return links; the second and the third visit find new links."""
    names = ["same", "etag", "date", "news", "moved", "flaky", "away"]
    names += [f"new{n}" for n in range(min(asked.number - 1, 2))]
    return links(*(f"/{name}" for name in names))


def etag(asked: Asked) -> Answer:
    known = asked.headers.get("If-None-Match") == '"v1"'
    return Answer("etag", 304 if known else 200, {"ETag": '"v1"'})


def date(asked: Asked) -> Answer:
    known = asked.headers.get("If-Modified-Since") == DATE
    return Answer("d", 304 if known else 200, {"Last-Modified": DATE})


def dated(asked: Asked) -> Answer:
    """Return another page each time, with the same date."""
    return Answer(f"{asked.number - 1}", headers={"Last-Modified": DATE})


@pytest.fixture
def pages() -> dict[str, Page]:
    texts = ("/same", "/target", "/new0", "/new1", "/twice", "/child", "/bad")
    return {
        **{path: path for path in texts},
        "/": home,
        "/etag": etag,
        "/date": date,
        "/dated": dated,
        "/news": lambda asked: f"news {(asked.number - 1) // 2}",
        "/moved": "-> /target",
        "/form": "-> /target",
        "/flaky": lambda asked: Answer("flaky", 200 if asked.number % 2 else 500),
        "/away": ["away", Answer("away", 404)],
        "/clock": lambda asked: f"{(asked.number - 1) // 3} {asked.number - 1}",
    }


def every(seconds: float, pattern: str = ".*") -> dict[str, Any]:
    return {"BLOOMDUPE_REVISIT": [[pattern, seconds]]}


def texts_of(crawl: Crawl) -> Counter[str]:
    return Counter(item["text"] for item in crawl.items() if "text" in item)


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def visit(
    crawl: Crawl, spider: type[Spider], wanted: dict[str, int], **options: Any
) -> Run:
    """Run a spider until pages were asked for so often; then interrupt it.

    Requests in progress are done by its end.
    """
    process = crawl.start(spider, **options)
    process.until(lambda: all(crawl.site.count[p] >= n for p, n in wanted.items()))
    return process.interrupt()


@pytest.mark.parametrize("engine", ["memory", "disk", "redis"], indirect=True)
@BOTH
def test_pages_are_revisited_and_only_changes_count(crawl: Crawl, site: Site) -> None:
    often = ("/", "/same", "/etag", "/date", "/news", "/moved", "/target", "/flaky")
    wanted = {**dict.fromkeys(often, 3), "/away": 2, "/new0": 1}
    stats = visit(crawl, Pages, wanted, **every(0.2)).stats
    for path in often:
        assert min(gaps(site.times(path))) >= 0.2, path
    texts = texts_of(crawl)
    assert all(count == 1 for count in texts.values()), texts
    found = {"/same", "etag", "d", "news 0", "news 1", "/target", "/new0"}
    assert found <= texts.keys()
    # Neither callback nor errback is called when nothing has changed.
    assert stats["parsed/etag"] == stats["parsed/date"] == 1
    assert stats["downloader/response_status_count/304"] >= 4
    errors = stats.get("downloader/response_status_count/500", 0)
    assert stats["failed"] <= errors + site.count["/away"]
    assert stats["bloomdupe/revisits_unchanged"] > stats["bloomdupe/revisits_changed"]
    assert stats["bloomdupe/items_unchanged"] >= 2
    # All of them come again, so the crawl is never finished.
    assert stats.get("bloomdupe/pending", 8) >= 8


@BOTH
def test_after_a_kill_every_page_is_still_revisited(crawl: Crawl, site: Site) -> None:
    crawl.settings |= every(0.2)
    process = crawl.start(Pages)
    process.until_requested("/new1")
    durable = crawl.durable_pages
    # Some pages are due by then, some in progress.
    process.until(lambda: crawl.durable_pages > durable)
    process.kill()
    known = ("/", "/same", "/news", "/etag", "/new1")
    visit(crawl, Pages, {path: site.count[path] + 1 for path in known})
    texts = texts_of(crawl)
    assert all(count == 1 for count in texts.values()), texts


@pytest.mark.parametrize("engine", ["redis"], indirect=True)
@pytest.mark.parametrize("stop", ["before claim", "after claim", "after settle"])
@pytest.mark.parametrize(("nth", "parts"), [(2, {}), (5, {}), (2, {"127.0.0.1": 4})])
@BOTH
def test_after_a_kill_around_a_first_visit_the_page_comes_once_each_time(
    crawl: Crawl, site: Site, stop: str, nth: int, parts: dict[str, int]
) -> None:
    """The next visit is pending when its page is settled, and not before."""
    crawl.settings |= {"BLOOMDUPE_REDIS_SLOT_PARTS": parts, **every(0.2)}
    assert crawl.killed(Pages, stop=stop, nth=nth).stopped == stop
    known = ("/", "/same", "/news", "/etag")
    visit(crawl, Pages, {path: site.count[path] + 4 for path in known})
    texts = texts_of(crawl)
    assert set(texts.values()) == {1}, texts
    # Only after the kill a page may come sooner, once.
    for path in known:
        assert sum(gap < 0.2 for gap in gaps(site.times(path))) <= 1, path


@BOTH
def test_a_job_with_pages_that_come_again_waits(crawl: Crawl) -> None:
    run = crawl.run(Rules, BLOOMDUPE_WAIT=0, **every(3_600))
    assert run.finish_reason == "waiting"
    assert run.stats["bloomdupe/later"] == 8


@BOTH
def test_rules_of_a_crawl_spider_hold_again(crawl: Crawl) -> None:
    always: dict[str, Any] = {"BLOOMDUPE_REVISIT_ITEMS": "always"}
    wanted = {"/news": 3, "/new0": 2, "/same": 3, "/etag": 2}
    visit(crawl, Rules, wanted, **every(0.2), **always)
    texts = texts_of(crawl)
    assert texts["news 1"] >= 1
    assert texts["/new0"] >= 2
    assert texts["/same"] >= 3
    assert texts["etag"] == 1  # 304 has no item


@BOTH
def test_a_spider_names_the_parts_that_count(crawl: Crawl) -> None:
    visit(crawl, Named, {"/clock": 4}, starts=["/clock"], **every(0.2))
    assert [item["text"] for item in crawl.items()][:2] == ["0 0", "1 3"]


@BOTH
@pytest.mark.parametrize("spider", [Clumsy, ClumsyItems])
def test_a_visit_whose_callback_or_pipeline_failed_does_not_count(
    crawl: Crawl, site: Site, spider: type[Spider]
) -> None:
    crawl.settings |= every(0.2, "/(etag|same)$")
    visit(crawl, spider, {"/etag": 3, "/same": 3}, starts=["/etag", "/same"])
    texts = texts_of(crawl)
    assert (texts["etag"], texts["/same"]) == (1, 1)
    asked = [visit.headers for visit in site.log if visit.path == "/etag"]
    # It is asked for as a whole, and known only from then on.
    assert ["If-None-Match" in headers for headers in asked][:3] == [False, False, True]


@BOTH
def test_what_a_page_is_asked_with_stays_there(crawl: Crawl, site: Site) -> None:
    crawl.settings |= every(0.2, "/dated$")
    visit(crawl, Clumsy, {"/older3": 1}, starts=["/dated"])
    asked = {(visit.path, visit.number): visit.headers for visit in site.log}
    assert "If-Modified-Since" in asked["/dated", 3]
    assert "If-Modified-Since" not in asked["/older3", 1]


@BOTH
def test_a_page_that_comes_again_is_not_taken_up_from_the_ledger(
    crawl: Crawl, site: Site
) -> None:
    crawl.settings |= {"BLOOMDUPE_WAIT": 0, **every(3_600)}
    crawl.run(Clumsy, starts=["/same"])
    run = crawl.run(Clumsy, starts=["/same"], BLOOMDUPE_RETRY_FAILED="callback")
    assert run.stats["bloomdupe/retried_failures"] == 0
    assert run.stats["bloomdupe/later"] == 1
    assert site.count["/same"] == 1


@BOTH
def test_a_request_decides_about_its_revisits(crawl: Crawl, site: Site) -> None:
    log = visit(crawl, Chosen, {"/form": 2, "/twice": 6, "/child": 1}).log
    forms = {visit.method for visit in site.log if visit.path == "/form"}
    assert forms == {"POST"}  # not the method after the redirect
    assert min(gaps(site.times("/form"))) >= 0.2
    # Asked for three times, it comes again once.
    times = site.times("/twice")
    assert len(times) <= 3 + (times[-1] - times[0]) / 0.2
    assert site.count["/child"] == 1
    assert "/bad> is refused: meta['bloomdupe_revisit'] = 'often'" in log
    found = {i["argument"] for i in crawl.items() if "target" in i["page"]}
    assert found == {"kept"}


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


def test_the_best_interval_is_optimal() -> None:
    """Against a search among other intervals; and the price is the same for all."""
    least = 3_600.0
    for days in (0.2, 1, 7, 30, 300):
        rate = 1 / (days * DAY)
        best = best_interval(rate, least)
        # The value of a visit, in fresh seconds a second, where this interval is best.
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


def test_deleted_pages_are_revisited_ever_more_rarely() -> None:
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


def test_not_modified_keeps_the_known_hash() -> None:
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
