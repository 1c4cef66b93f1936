"""Rounds of a crawl, on both engines: from its start requests until it has finished."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from spiders.follow import LogsIn, Rounds
from support.crawl import FEEDS, Crawl
from support.engines import on_both_engines
from support.site import Answer, links

AGAIN: dict[str, Any] = {"BLOOMDUPE_START_REQUESTS": "again"}
START_PAGES = ["/a", "/b"]
ONE: dict[str, Any] = {"CONCURRENT_REQUESTS": 1}

PAGES = {"/a": links("/b", "/c"), "/b": links("/a"), "/c": links("/a"), "/d": ""}
SETTINGS = {"FEEDS": FEEDS}


def round_of(crawl: Crawl) -> Any:
    found = json.loads(crawl.bloomdupe("info", crawl.engine.job, "--json"))
    return found["job"]["round"]


@on_both_engines
def test_a_new_round_fetches_start_pages_and_new_links(
    crawl: Crawl, pages: dict[str, Any]
) -> None:
    assert sorted(crawl.run(Rounds, **AGAIN).requested) == ["/a", "/b", "/c"]
    assert crawl.run(Rounds).requested == []
    assert round_of(crawl) == 1
    pages["/a"] = links("/b", "/c", "/d")
    run = crawl.run(Rounds, **AGAIN)
    assert sorted(run.requested) == [*START_PAGES, "/d"]
    assert run.stats["bloomdupe/round"] == 2
    assert sorted(crawl.run(Rounds, **AGAIN).requested) == START_PAGES
    assert crawl.run(Rounds).requested == []
    assert round_of(crawl) == 3
    items = Counter(item["page"] for item in crawl.items())
    assert items == {"start": 3, "a": 3, "b": 3, "c": 1, "d": 1}


def test_a_new_round_begins_without_cookies(
    crawl: Crawl, pages: dict[str, Any]
) -> None:
    pages["/a"] = Answer(links("/c"), headers={"Set-Cookie": "session=1"})
    for _ in range(2):
        crawl.run(Rounds, **AGAIN, **ONE)
    sent = {(visit.path, visit.headers.get("Cookie")) for visit in crawl.site.log}
    assert ("/c", "session=1") in sent
    assert ("/a", "session=1") not in sent


@on_both_engines
def test_a_round_that_was_killed_goes_on(crawl: Crawl) -> None:
    crawl.run(Rounds)
    crawl.settings |= {**AGAIN, "CONCURRENT_REQUESTS": 1}
    killed = crawl.killed(Rounds, at_request=2)
    run = crawl.run(Rounds)
    assert run.stats["bloomdupe/round"] == 2
    assert {*killed.requested, *run.requested} == {*START_PAGES}
    assert len(run.requested) <= len(START_PAGES)
    items = Counter(item["page"] for item in crawl.items())
    assert items == {"start": 2, "a": 2, "b": 2, "c": 1}


@on_both_engines
def test_a_new_round_logs_in_anew_and_fetches_no_page_again(
    crawl: Crawl, pages: dict[str, Any]
) -> None:
    pages |= {"/login": links("/c"), "/c": links("/d"), "/d": links("/c", "/login")}
    run = crawl.run(LogsIn, **AGAIN)
    assert sorted(run.requested) == ["/c", "/d", "/login", "/login"]
    pages["/login"] = links("/c", "/e")
    run = crawl.run(LogsIn, **AGAIN)
    assert sorted(run.requested) == ["/e", "/login", "/login"]
    # Nor does a page that was asked for once more.
    crawl.bloomdupe("requeue", crawl.engine.job, f"{crawl.site.base}/c")
    assert crawl.run(LogsIn).requested == ["/c"]


def test_a_new_round_begins_though_a_url_was_added(crawl: Crawl) -> None:
    crawl.run(Rounds)
    crawl.bloomdupe("add", crawl.engine.job, f"{crawl.site.base}/d")
    assert sorted(crawl.run(Rounds, **AGAIN).requested) == [*START_PAGES, "/d"]
    assert round_of(crawl) == 2


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["redis"], indirect=True)
@pytest.mark.usefixtures("engine")
def test_workers_that_begin_together_are_in_one_round(crawl: Crawl) -> None:
    crawl.finish(Rounds)
    for number in (2, 3):
        crawl.site.take()
        crawl.site.hold()
        crew = [crawl.start(Rounds, **AGAIN) for _ in range(3)]
        crawl.site.until_requested(len(crawl.site.log) + 1)
        late = crawl.start(Rounds, **AGAIN)
        for worker in (*crew, late):
            worker.until_logged("This is worker")
        crawl.site.release()
        # The last leader looks for new start requests once more, and sends duplicates.
        for worker in (*crew, late):
            assert worker.until_finished().stats["bloomdupe/round"] == number
        assert crawl.engine.finished
        assert sorted(crawl.site.take()) == START_PAGES
    items = Counter(item["page"] for item in crawl.items())
    assert items == {"start": 3, "a": 3, "b": 3, "c": 1}
