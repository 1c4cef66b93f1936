"""Pages with exact URLs, beside a filter that misjudges new pages."""

from __future__ import annotations

from typing import Any

import pytest
from spiders.exact_urls import Follow
from support.crawl import Crawl
from support.full_filter import take_everything_for_seen
from support.site import Pages, graph

from bloomdupe import BloomFilter

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("feed")]

SIZE = 30
EXACT: dict[str, Any] = {"BLOOMDUPE_EXACT": [r"/\w*[02468]$", r"/\w*[13579]$"]}
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


@pytest.mark.parametrize("exact", [EXACT, {"BLOOMDUPE_EXACT": True}])
def test_no_page_with_an_exact_url_is_lost(crawl: Crawl, exact: dict[str, Any]) -> None:
    assert crawled(crawl, **exact) == EVERY_PAGE
    assert with_items(crawl) == EVERY_PAGE
    assert crawl.run(Follow, **exact).requested == []


def test_without_exact_urls_pages_are_lost(crawl: Crawl) -> None:
    """The control."""
    assert len(crawled(crawl)) < len(EVERY_PAGE)


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


def test_all_runs_have_the_same_exact_urls(crawl: Crawl) -> None:
    crawl.run(Follow, **EXACT)
    crawl.site.take()
    for other in (False, True, ["/a"]):
        refused = crawl.refused(Follow, BLOOMDUPE_EXACT=other)
        assert "set BLOOMDUPE_EXACT back" in refused.log
    shown = crawl.bloomdupe("info", crawl.engine.job)
    assert str(EXACT["BLOOMDUPE_EXACT"]) in shown
