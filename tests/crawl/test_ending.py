"""When a crawl is finished, and when it is incomplete; in real crawls."""

from __future__ import annotations

import json

import pytest
from spiders.ending import Breaks, GivesReason, Leaves, Start, WaitsForEver
from support.crawl import Crawl
from support.engines import on_both_engines
from support.repetition import by_default
from support.site import PAGES as SITE

from bloomdupe.jobs.job_on_disk import JobOnDisk

pytestmark = pytest.mark.slow

PAGES = {**SITE, "/x": ""}
SETTINGS = {"FEEDS": {"items.json": {"format": "json"}}}
WHOLE = sorted(path[1:] for path in PAGES)


def delivered(crawl: Crawl) -> list[str] | None:
    file = crawl.folder / "items.json"
    if not file.exists():
        return None
    return sorted(item["page"] for item in json.loads(file.read_text()))


@pytest.mark.parametrize(
    ("spider", "why"),
    [
        pytest.param(
            Leaves,
            "meta['bloomdupe_delay'] = 'soon': expected seconds",
            marks=by_default,
        ),
        (Breaks, "its processing was aborted: ZeroDivisionError"),
        (Start, "meta['bloomdupe_delay'] = 'soon': expected seconds"),
    ],
)
def test_a_crawl_with_a_request_left_is_incomplete_until_it_is_done(
    crawl: Crawl, spider: type[Leaves], why: str
) -> None:
    for _ in range(2):
        run = crawl.run(spider, status=1)
        assert run.stats["finish_reason"] == "incomplete"
        (line,) = [line for line in run.log.splitlines() if "is incomplete" in line]
        assert "Requests that are not done: 1, such as" in line
        assert why in line
        assert ("start() yields them again" in line) == (spider is Start)
        assert ("`bloomdupe drop`" in line) == (spider is not Start)
        assert delivered(crawl) is None
        job = JobOnDisk(str(crawl.store)).read()
        assert job.notes["run"] == "incomplete"
    assert crawl.run(spider, MENDED=1).stats["finish_reason"] == "finished"
    assert delivered(crawl) == WHOLE
    job = JobOnDisk(str(crawl.store)).read()
    assert (job.notes["run"], job.pending) == ("finished", 0)


def test_a_spider_may_give_its_reason_when_it_is_idle(crawl: Crawl) -> None:
    """Nothing is pending, so the crawl has finished, and a new round may begin."""
    crawl.settings |= {"BLOOMDUPE_START_REQUESTS": "again"}
    run = crawl.run(GivesReason)
    assert run.stats["finish_reason"] == "all done"
    assert "Finished; " in run.log
    assert delivered(crawl) == WHOLE
    run = crawl.run(GivesReason)
    assert run.stats["bloomdupe/round"] == 2
    assert run.requested == ["/"]


@on_both_engines
@pytest.mark.parametrize("where", ["callback", "download"])
def test_after_a_failure_nobody_waits_for_what_does_not_come(
    crawl: Crawl, where: str
) -> None:
    """Its page is pending, though an errback takes care of it."""
    run = crawl.run(WaitsForEver, status=1, WHERE=where)
    (line,) = [line for line in run.log.splitlines() if " CRITICAL: " in line]
    assert "Memory has run out, so the crawl stops: see the limit" in line
    assert run.finish_reason == "out_of_memory"
    assert delivered(crawl) is None
    run = crawl.run(WaitsForEver, MENDED=1)
    assert run.finish_reason == "finished"
    assert "/d" in run.requested
    crawl.collect()
    assert delivered(crawl) == ["a", "b", "c", "d", "start", "x"]
