"""The totals of a job: every page and item counts once, after kills, too."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from spiders.follow import Everything
from support.crawl import FEEDS, Crawl
from support.engines import on_both_engines
from support.repetition import repeated
from support.site import Answer, Page, Site, links

# Some of the links are duplicates.
PAGES: dict[str, Page] = {
    "/": links("/a", "/b", "/m1", "/missing", "/gone"),
    "/a": links("/", "/a1", "/m2"),
    "/b": links("/a", "/b1", "/m1"),
    "/m1": links("/m3", "/c"),
    "/m4": links("/d"),
    **dict.fromkeys(("/a1", "/b1", "/m2", "/m3", "/c", "/d"), "a page"),
    "/gone": Answer("", 410),
}
STARTS = ["/", "/m4"]
SETTINGS = {"FEEDS": FEEDS, "HTTPERROR_ALLOWED_CODES": [410]}


def totals(crawl: Crawl) -> dict[str, Any]:
    found = json.loads(crawl.bloomdupe("top", crawl.engine.job, "--json"))
    of_all: dict[str, Any] = found["totals"]
    assert found["pages"] == of_all["pages"]
    assert found["items"] == of_all["items"]
    return of_all


def check(crawl: Crawl) -> dict[str, Any]:
    """Hold the totals of a finished job against its site and its output."""
    found = totals(crawl)
    asked = PAGES.keys() | {"/missing"}
    assert found["pages"] == len(asked)
    assert found["statuses"] == {"200": len(PAGES) - 1, "404": 1, "410": 1}
    assert found["items"] == len(crawl.items()) == len(PAGES) + 1
    (slot,) = found["by_slot"].values()
    assert slot == [found["pages"], found["bytes"]]
    assert found["bytes"] > len(PAGES)
    return found


@on_both_engines
def test_the_totals_are_those_of_all_processes(crawl: Crawl, site: Site) -> None:
    (run,) = crawl.finish(Everything)
    found = check(crawl)
    assert found["duplicates"] == run.stats["dupefilter/filtered"]
    bytes_before = found["bytes"]
    said = re.search(r"Finished; (.*)", run.log)
    assert said is not None
    place = "Redis (`bloomdupe collect` " if crawl.engine.collects else "items.jsonl"
    counts = f"{len(site.log)} pages, {len(crawl.items())} items"
    assert said[1].startswith(f"{counts} in {place}")
    again = crawl.run(Everything)  # it has nothing to do
    assert again.requested == []
    assert check(crawl)["bytes"] == bytes_before
    info = crawl.bloomdupe("info", crawl.engine.job)
    assert re.search(rf"^pages +{len(site.log)}$", info, re.MULTILINE)
    assert re.search(rf"^items +{len(crawl.items())}$", info, re.MULTILINE)


@on_both_engines
@pytest.mark.parametrize("at_request", repeated([7, 3, 11]))
def test_a_kill_neither_loses_nor_repeats_a_count(
    crawl: Crawl, at_request: int
) -> None:
    crawl.killed(Everything, at_request=at_request, CONCURRENT_REQUESTS=1)
    crawl.finish(Everything)
    check(crawl)
