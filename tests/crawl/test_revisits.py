"""Revisited pages, in real crawls; the judge is the server's log."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from scrapy import Spider
from spiders.revisits import Chosen, Pages
from support.crawl import FEEDS, Crawl, Run
from support.site import Answer, Page, Site, links
from support.site import Visit as Asked

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]

SETTINGS = {"FEEDS": FEEDS}


def home(asked: Asked) -> str:
    """Return links; the second and the third visit find new links."""
    names = ["same", "news", "moved", "flaky", "away"]
    names += [f"new{n}" for n in range(min(asked.number - 1, 2))]
    return links(*(f"/{name}" for name in names))


TEXTS = ("/same", "/target", "/new0", "/new1", "/twice", "/child", "/bad")
PAGES: dict[str, Page] = {
    **{path: path for path in TEXTS},
    "/": home,
    "/news": lambda asked: f"news {(asked.number - 1) // 2}",
    "/moved": "-> /target",
    "/form": "-> /target",
    "/flaky": lambda asked: Answer("flaky", 200 if asked.number % 2 else 500),
    "/away": ["away", Answer("away", 404)],
}


def every(seconds: float) -> dict[str, Any]:
    return {"BLOOMDUPE_REVISIT": [[".*", seconds]]}


def texts_of(crawl: Crawl) -> Counter[str]:
    return Counter(item["text"] for item in crawl.items() if "text" in item)


def gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


def visit(
    crawl: Crawl, spider: type[Spider], wanted: dict[str, int], **options: Any
) -> Run:
    """Run a spider until pages were asked for so often; then interrupt it.

    Requests in flight are done by its end.
    """
    process = crawl.start(spider, **options)
    process.until(lambda: all(crawl.site.count[p] >= n for p, n in wanted.items()))
    return process.interrupt()


@pytest.mark.parametrize("engine", ["memory", "disk", "redis"], indirect=True)
def test_pages_are_revisited_and_each_visit_is_whole(crawl: Crawl, site: Site) -> None:
    often = ("/", "/same", "/news", "/moved", "/target", "/flaky")
    wanted = {**dict.fromkeys(often, 3), "/away": 3, "/new0": 1}
    stats = visit(crawl, Pages, wanted, **every(0.2)).stats
    for path in often:
        assert min(gaps(site.times(path))) >= 0.2, path
    texts = texts_of(crawl)
    assert {"/same", "news 0", "news 1", "/target", "/new0"} <= texts.keys()
    assert texts["/same"] == stats["parsed/same"] == site.count["/same"]
    errors = stats.get("downloader/response_status_count/500", 0)
    assert stats["failed"] <= errors + site.count["/away"]
    assert stats["bloomdupe/revisits"] >= 2 * len(often)
    # All of them come again, so the crawl is never finished.
    assert stats.get("bloomdupe/pending", 6) >= 6


def test_after_a_kill_every_page_is_still_revisited(crawl: Crawl, site: Site) -> None:
    crawl.settings |= every(0.2)
    process = crawl.start(Pages)
    process.until_requested("/new1")
    durable = crawl.durable_pages
    # Some pages are due by then, some in flight.
    process.until(lambda: crawl.durable_pages > durable)
    process.kill()
    known = ("/", "/same", "/news", "/new1")
    visit(crawl, Pages, {path: site.count[path] + 1 for path in known})
    assert site.count["/same"] - texts_of(crawl)["/same"] in (0, 1)


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


def test_a_page_that_was_asked_for_by_hand_comes_again_as_before(
    crawl: Crawl, site: Site
) -> None:
    """Its rule was taken away and given back; nothing but a hand brings it back."""
    crawl.settings["BLOOMDUPE_WAIT"] = 0
    crawl.starts, job = ["/same"], crawl.engine.job
    assert crawl.run(Pages, **every(3_600)).finish_reason == "waiting"
    an_hour_later: dict[str, Any] = {"before": crawl.engine.pass_time(3_600)}
    crawl.run(Pages, **an_hour_later)
    assert site.requested == ["/same", "/same"]
    run = crawl.run(Pages, **every(3_600), **an_hour_later)
    assert run.stats["bloomdupe/delayed"] == 0
    assert run.requested == []
    crawl.bloomdupe("requeue", job, f"{site.base}/same")
    run = crawl.run(Pages, **every(3_600), **an_hour_later)
    assert run.stats["bloomdupe/delayed"] == 1
    # Asked for once more while it waits, it does not come twice as often.
    said = crawl.bloomdupe("requeue", job, f"{site.base}/same")
    assert said == "0 pending now\n1 was pending already: not added\n"
