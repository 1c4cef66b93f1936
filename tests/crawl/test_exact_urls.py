"""Pages with exact URLs, on both engines, beside a filter that misjudges new pages."""

from __future__ import annotations

from typing import Any

import pytest
from spiders.exact_urls import Follow
from support.crawl import Crawl
from support.engines import Redis
from support.full_filter import take_everything_for_seen
from support.site import Pages, graph

from bloomdupe import BloomFilter

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("feed")]

on_each_engine = pytest.mark.usefixtures("engine")
SIZE = 30
EXACT: dict[str, Any] = {"BLOOMDUPE_EXACT_URLS": [r"/\w*[02468]$", r"/\w*[13579]$"]}
KINDS = ("", "again", "kept")
EVERY_PAGE = sorted(f"/{kind}{number}" for kind in KINDS for number in range(SIZE))


@pytest.fixture
def pages() -> Pages:
    pages = graph(SIZE)
    for number in range(SIZE):
        again, kept = f"/again{number}", f"/kept{number}"
        more = f"<b href={again}></b><i href={kept}></i>"
        pages |= {f"/{number}": f"{pages[f'/{number}']}{more}", again: "", kept: ""}
    return pages


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    """Return a crawl with a small filter."""
    crawl.starts = ("/0",)
    crawl.settings["BLOOMDUPE_EXPECTED_URLS"] = 1_000
    return crawl


def fill(crawl: Crawl) -> None:
    """Let the filter call every new key seen."""
    if isinstance(crawl.engine, Redis):
        with crawl.engine.frontier() as frontier:
            for number in range(4):
                take_everything_for_seen(frontier.seen_in(number))
    else:
        with BloomFilter.open(crawl.store) as seen:
            take_everything_for_seen(seen)


def crawled(crawl: Crawl, **settings: Any) -> list[str]:
    """Return the pages of a crawl with such a filter.

    The first page is fetched twice: the first run leaves a request in memory.
    """
    crawl.run(Follow, CLOSESPIDER_PAGECOUNT=1, CONCURRENT_REQUESTS=1, **settings)
    fill(crawl)
    crawl.run(Follow, **settings)
    return sorted(set(crawl.site.take()))


def with_items(crawl: Crawl) -> list[str]:
    return sorted(item["page"] for item in crawl.items())


@on_each_engine
def test_no_page_with_an_exact_url_is_lost(crawl: Crawl) -> None:
    assert crawled(crawl, **EXACT) == EVERY_PAGE
    assert with_items(crawl) == EVERY_PAGE
    assert crawl.run(Follow, **EXACT).requested == []


@on_each_engine
def test_without_exact_urls_pages_are_lost(crawl: Crawl) -> None:
    """The control."""
    assert len(crawled(crawl)) < len(EVERY_PAGE)


@on_each_engine
def test_verbs_know_exact_urls(crawl: Crawl) -> None:
    crawled(crawl, **EXACT)
    crawl.make_project()
    job, base = crawl.engine.job, crawl.site.base
    said = crawl.bloomdupe("add", job, f"{base}/absent2", f"{base}/2")
    assert said.endswith("1 pending now\n1 was seen before: skipped\n")
    assert "0 pending now" in crawl.bloomdupe("requeue", job, f"{base}/no4", code=1)
    assert "1 pending now" in crawl.bloomdupe("requeue", job, f"{base}/4")
    run = crawl.run(Follow, **EXACT)
    assert sorted(run.requested) == ["/4", "/absent2", "/again4"]


@on_each_engine
def test_all_runs_and_workers_have_the_same_exact_urls(crawl: Crawl) -> None:
    crawl.run(Follow, **EXACT)
    crawl.site.take()
    others: list[dict[str, Any]] = [{}, {"BLOOMDUPE_EXACT_URLS": ["/a"]}]
    for other in others:
        assert "BLOOMDUPE_EXACT_URLS" in crawl.refused(Follow, **other).log
    shown = crawl.bloomdupe("info", crawl.engine.job)
    assert str(EXACT["BLOOMDUPE_EXACT_URLS"]) in shown
