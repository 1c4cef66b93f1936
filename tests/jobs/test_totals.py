"""The totals of a job: every page and item counts once, after kills, too."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.request import urlopen

import pytest
from spiders.totals import ClosedAt, Everything
from support.crawl import FEEDS, Crawl
from support.ports import kept_port
from support.repetition import repeated
from support.site import Answer, Page, Site, links

pytestmark = pytest.mark.usefixtures("engine")

LINKS = ("/a", "/b", "/m1", "/missing", "/gone")


@pytest.fixture
def pages() -> dict[str, Page]:
    """Return pages with links, of which some are duplicates."""
    return {
        "/": links(*LINKS),
        "/a": links("/", "/a1", "/m2"),
        "/b": links("/a", "/b1", "/m1"),
        "/m1": links("/m3", "/c"),
        "/m4": links("/d"),
        **dict.fromkeys(("/a1", "/b1", "/m2", "/m3", "/c", "/d"), "a page"),
        "/gone": Answer("", 410),
    }


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.settings |= {"FEEDS": FEEDS, "HTTPERROR_ALLOWED_CODES": [410]}
    crawl.starts = ["/", "/m4"]
    return crawl


def totals(crawl: Crawl) -> dict[str, Any]:
    found = json.loads(
        crawl.bloomdupe("top", crawl.engine.job, "--json", "--interval", "0.1")
    )
    of_all: dict[str, Any] = found["totals"]
    assert found["job"]["pages"] == of_all["pages"]
    assert found["job"]["items"] == of_all["items"]
    return of_all


def check(crawl: Crawl, pages: dict[str, Page]) -> dict[str, Any]:
    """Hold the totals of a finished job against its site and its output."""
    found = totals(crawl)
    asked = pages.keys() | {"/missing"}
    assert found["pages"] == len(asked)
    assert found["statuses"] == {"200": len(pages) - 1, "404": 1, "410": 1}
    assert found["depths"]["0"] == 2  # a page may be found on several ways
    assert sum(found["depths"].values()) == found["pages"]
    assert found["items"] == len(crawl.items()) == len(pages) + 1
    (slot,) = found["by_slot"].values()
    assert slot == [found["pages"], found["bytes"]]
    assert found["bytes"] > len(pages)
    return found


def test_the_totals_are_those_of_all_processes(
    crawl: Crawl, site: Site, pages: dict[str, Page]
) -> None:
    (run,) = crawl.finish(Everything)
    found = check(crawl, pages)
    assert found["duplicates"] == run.stats["dupefilter/filtered"]
    bytes_before = found["bytes"]
    said = re.search(r"Finished; (.*)", run.log)
    assert said is not None
    assert f"{len(site.log)} pages, {len(crawl.items())} items" in said[1]
    again = crawl.run(Everything)  # it has nothing to do
    assert again.requested == []
    assert check(crawl, pages)["bytes"] == bytes_before
    info = crawl.bloomdupe("info", crawl.engine.job)
    assert re.search(rf"^pages done +{len(site.log)}$", info, re.MULTILINE)
    assert re.search(rf"^items +{len(crawl.items())}$", info, re.MULTILINE)


@pytest.mark.parametrize("engine", ["disk"], indirect=True)
def test_duplicates_of_all_runs_count(crawl: Crawl) -> None:
    first = crawl.interrupted(Everything, after=9, CONCURRENT_REQUESTS=1)
    runs = [first, *crawl.finish(Everything)]
    filtered = [run.stats.get("dupefilter/filtered", 0) for run in runs]
    assert totals(crawl)["duplicates"] == sum(filtered)
    assert all(filtered)


@pytest.mark.parametrize("at_request", repeated([7, 3, 11]))
def test_a_kill_neither_loses_nor_repeats_a_count(
    crawl: Crawl, pages: dict[str, Page], at_request: int
) -> None:
    crawl.killed(Everything, at_request=at_request, CONCURRENT_REQUESTS=1)
    crawl.finish(Everything)
    check(crawl, pages)


@pytest.mark.parametrize("page", repeated(["/b", "/m4"]))
def test_a_page_with_a_callback_that_closes_the_crawl_counts_once(
    crawl: Crawl, pages: dict[str, Page], page: str
) -> None:
    crawl.run(ClosedAt, AT=page, CONCURRENT_REQUESTS=1)
    crawl.finish(ClosedAt)
    check(crawl, pages)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["redis"], indirect=True)
def test_duplicates_that_only_redis_knows_count_too(
    crawl: Crawl, pages: dict[str, Page]
) -> None:
    """Each page is done by another process than the page before."""
    chain = {f"/{n}": links(*(f"/{m}" for m in range(n + 2))) for n in range(4)}
    pages.clear()
    pages |= {**chain, "/4": "the end"}
    crawl.starts = ["/0"]
    for _ in range(6):
        crawl.run(Everything, CLOSESPIDER_PAGECOUNT=1, CONCURRENT_REQUESTS=1)
    found = totals(crawl)
    assert found["pages"] == len(pages)
    assert found["duplicates"] == sum(n + 1 for n in range(4))


@pytest.mark.parametrize("engine", ["redis"], indirect=True)
@pytest.mark.parametrize("nth", repeated([2, 1]))
@pytest.mark.parametrize("when", repeated(["after", "before"]))
def test_a_kill_beside_a_settlement_counts_its_pages_once(
    crawl: Crawl, pages: dict[str, Page], when: str, nth: int
) -> None:
    crawl.killed(Everything, stop=f"{when} settle", nth=nth, CONCURRENT_REQUESTS=1)
    crawl.finish(Everything)
    check(crawl, pages)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["redis"], indirect=True)
def test_metrics_and_log_of_a_worker_are_about_all_workers(
    crawl: Crawl, site: Site
) -> None:
    """Also about a worker that was killed."""
    crawl.settings["BLOOMDUPE_PROGRESS_INTERVAL"] = 0.05
    site.hold("/b")
    crawl.starts = ["/a"]
    one = crawl.start(Everything)
    one.until_requested("/b")
    one.until(lambda: totals(crawl)["pages"] == 9)  # all but /b and its link
    one.kill()
    two = crawl.start(Everything, BLOOMDUPE_METRICS=kept_port())
    two.until_logged("; 9 pages by all workers")
    (url,) = re.findall(r"http://127\.0\.0\.1:\d+/metrics", two.log)

    def says(figure: str) -> bool:
        with urlopen(url, timeout=300) as answer:  # noqa: S310 - on loopback
            text: str = answer.read().decode()
        return f"\nbloomdupe_{figure}\n" in re.sub(r'{spider="everything",?', "{", text)

    two.until(lambda: says("pages_total{} 9.0"))
    two.until(lambda: says('responses_total{status="2xx"} 7.0'))
    two.until(lambda: says("items_total{} 9.0"))
    site.release()
    two.finish()
