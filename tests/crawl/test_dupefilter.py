"""The dupefilter in real crawls, judged by the requests that the server has seen."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy.utils.python import global_object_name
from spiders.follow import Follow, Forced, OfPlainRequests, PutsOut
from support.crawl import Crawl, Run
from support.full_filter import take_everything_for_seen
from support.repetition import repeated
from support.site import Answer, Page

from bloomdupe import BloomFilter

PAGES = {
    "/": "<a href='/'>1</a><a href='/a'>2</a><a href='/a#x'>3</a>"
    "<a href='/b?x=1&y=2'>4</a><a href='/b?y=2&x=1'>5</a><a href='/moved'>6</a>",
    "/a": "<a href='/'>1</a><a href='/c'>2</a><a href='/%7Ed'>3</a>",
    "/b?x=1&y=2": "<a href='/c'>1</a><a href='/~d'>2</a>",
    "/c": "<a href='/a'>1</a><a href='/e'>2</a>",
    "/~d": "",
    "/%7Ed": "",
    "/e": "<a href='/f'>1</a>",
    "/f": "<a href='/'>1</a>",
    "/moved": "-> /a",
}
SCRAPYS = "scrapy.core.scheduler.Scheduler"
SETTINGS = {"CONCURRENT_REQUESTS": 1}
EACH_ONCE = ["/", "/a", "/b?x=1&y=2", "/c", "/e", "/f", "/moved", "/~d"]


STOCK: dict[str, Any] = {"ADDONS": {}}


def paths(crawl: Crawl) -> list[str]:
    """Return the paths requested; of two spellings, either may come first."""
    one = {"/%7Ed": "/~d", "/b?y=2&x=1": "/b?x=1&y=2"}
    return sorted(one.get(path, path) for path in crawl.site.requested)


# What is fetched


def test_scrapys_own_filter_fetches_the_start_page_twice(crawl: Crawl) -> None:
    """The control of the other tests."""
    crawl.run(Follow, JOBDIR=None, **STOCK)
    assert paths(crawl) == sorted([*EACH_ONCE, "/"])


def test_no_fingerprint_is_asked_for_that_scrapy_does_not_need(crawl: Crawl) -> None:
    crawl.settings["REQUEST_FINGERPRINTER_CLASS"] = global_object_name(OfPlainRequests)
    assert crawl.run(Forced).requested == ["/", "/a"]


def test_after_a_kill_it_logs_that_the_queue_is_gone(crawl: Crawl) -> None:
    crawl.settings["SCHEDULER"] = SCRAPYS
    killed = crawl.killed(Follow, at_request=1)
    assert f"SCHEDULER is {SCRAPYS}, which keeps pending requests" in killed.log
    log = crawl.run(Follow).log
    (line,) = (line for line in log.splitlines() if "was killed" in line)
    assert "ERROR" in line
    assert "job/bloomdupe" in line
    assert "move the job directory away" in line
    assert crawl.site.count["/"] == 2  # the queue is lost: all it can do


def test_the_projects_own_fingerprinter_decides(crawl: Crawl) -> None:
    crawl.run(Follow, REQUEST_FINGERPRINTER_CLASS="spiders.links.PathFingerprinter")
    requested = crawl.site.requested
    assert sum(path.startswith("/b?") for path in requested) == 1
    # To it, /~d and /%7Ed are two pages.
    assert {"/~d", "/%7Ed"} <= set(requested)


def test_exact_urls_survive_a_filter_that_calls_everything_seen(crawl: Crawl) -> None:
    """Links, and start requests that are new."""
    crawl.settings["BLOOMDUPE_EXPECTED_URLS"] = 1_000

    def fill_and_go_on(job: str, **settings: Any) -> Run:
        crawl.run(Follow, JOBDIR=job, CLOSESPIDER_PAGECOUNT=1, **settings)
        with BloomFilter.open(crawl.folder / job / "bloomdupe") as seen:
            take_everything_for_seen(seen)
        return crawl.run(Follow, JOBDIR=job, starts=("/", "/new"), **settings)

    fill_and_go_on("job")
    some = crawl.site.take()
    assert len(some) < len(EACH_ONCE)  # the control: pages are lost
    assert "/new" not in some
    exact: dict[str, Any] = {"BLOOMDUPE_EXACT": [r"127\.0\.0\.1"]}
    fill_and_go_on("exact", **exact)
    found = (path.replace("%7E", "~") for path in crawl.site.take())
    assert sorted(found) == sorted([*EACH_ONCE, "/new"])
    again = crawl.run(Follow, JOBDIR="exact", starts=("/", "/new"), **exact)
    assert again.requested == []


# What is told


@pytest.mark.parametrize("debug", repeated([False, True]))
def test_stats_and_log_are_those_of_scrapys_own_filter(
    crawl: Crawl, debug: bool
) -> None:
    crawl.settings |= {"JOBDIR": None, "DUPEFILTER_DEBUG": debug}
    ours, stock = crawl.run(Follow), crawl.run(Follow, **STOCK)
    lines = [run.log.count("Filtered duplicate request") for run in (ours, stock)]
    counts = [run.stats["dupefilter/filtered"] for run in (ours, stock)]
    # The start page counts as seen from the start; its second fetch has no new links.
    assert counts[0] > 1
    assert lines[0] == (counts[0] if debug else 1)
    assert lines[1] == (counts[1] if debug else 1)
    assert ("no more duplicates will be shown" in ours.log) == (not debug)


def test_a_filter_that_keeps_its_fingerprints_apart_is_named(crawl: Crawl) -> None:
    name = "scrapy.dupefilters.RFPDupeFilter"
    log = crawl.run(Follow, DUPEFILTER_CLASS=name).log
    assert f"DUPEFILTER_CLASS is {name}, which keeps its fingerprints apart" in log


# What is refused


def test_another_crawls_store_is_refused_and_left_alone(crawl: Crawl) -> None:
    crawl.run(Follow, CLOSESPIDER_PAGECOUNT=2)
    before = crawl.contents()
    others: list[tuple[str, Any, str]] = [
        ("REQUEST_FINGERPRINTER_CLASS", "spiders.links.PathFingerprinter", ""),
        ("BLOOMDUPE_EXPECTED_URLS", 5, ""),
        ("BLOOMDUPE_FPP", 0.01, "= 1e-06, but fpp = 0.01 is asked for"),
        ("BLOOMDUPE_EXACT", True, "made with exact = False, but exact = True is"),
        ("BLOOMDUPE_EXACT", "x", "made with exact = False, but exact = ['x'] is"),
    ]
    runs = [(crawl.refused(Follow, **{n: v}), n, what) for n, v, what in others]
    said = "made with spider = 'follow', but spider = 'puts_out' is asked for"
    for run, name, what in [*runs, (crawl.refused(PutsOut), "JOBDIR", said)]:
        assert f"{name}: " in run.log
        assert what in run.log
        assert 'JOBDIR = "crawls/%(spider)s" is one for each spider' in run.log
    assert crawl.contents() == before


# Without the add-on


ALONE = {"DUPEFILTER_CLASS": "bloomdupe.BloomDupeFilter", **STOCK}


def test_the_dupefilter_works_without_the_add_on(crawl: Crawl) -> None:
    crawl.run(Follow, **ALONE)
    assert paths(crawl) == EACH_ONCE
    assert (crawl.store / "data.mdb").exists()


def test_a_start_request_is_skipped_when_a_stopped_crawl_goes_on_and_no_retry_of_it(
    crawl: Crawl, pages: dict[str, Page]
) -> None:
    """A retry inherits ``is_start_request``; if it were skipped, its page was lost."""
    pages["/"] = [Answer("", 503), Answer("", 503), PAGES["/"]]
    crawl.settings |= {"SCHEDULER": SCRAPYS, "RETRY_ENABLED": True}
    crawl.starts = ("/", "/c")  # which comes before the retry
    crawl.run(Follow, CLOSESPIDER_PAGECOUNT=1)
    run = crawl.run(Follow)
    assert run.requested.count("/") == 2
    assert run.stats["bloomdupe/start_requests_skipped"] == 2
    for words in ("Duplicate links are left to the scheduler", "was killed"):
        assert words not in run.log
    assert paths(crawl) == sorted([*EACH_ONCE, "/", "/"])
