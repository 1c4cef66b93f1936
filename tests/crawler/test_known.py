"""A pipeline that drops known items: the worked example."""

from __future__ import annotations

import pytest
from spiders.known import Titles
from support.crawl import FEEDS, Crawl
from support.site import links

pytestmark = pytest.mark.slow

COUNT = 120
STARTS = ["/0"]
CONTENTS = sorted(f"title {number}" for number in range(40))

PAGES = {
    f"/{n}": links(*(f"/{c}" for c in (2 * n + 1, 2 * n + 2) if c < COUNT))
    for n in range(COUNT)
}
SETTINGS = {
    "DEFAULT_DROPITEM_LOG_LEVEL": "INFO",
    "FEEDS": FEEDS,
    "ITEM_PIPELINES": {"crawler.known.KnownPipeline": 1},
}


def titles(crawl: Crawl) -> list[str]:
    found = [item["title"] for item in crawl.items()]
    return sorted(title for title in found if title is not None)


def test_each_content_is_there_once_whenever_the_crawl_was_killed(
    crawl: Crawl,
) -> None:
    for number in (15, 25, 30):
        crawl.killed(Titles, at_request=number)
    run = crawl.run(Titles)
    assert titles(crawl) == CONTENTS
    assert run.stats["bloomdupe/round"] == 1
    # The next job knows every item, and so does the next round of this job.
    other = {"next.jsonl": FEEDS["items.jsonl"]}
    crawl.run(Titles, JOBDIR="next", FEEDS=other)
    found = (crawl.folder / "next.jsonl").read_text()
    assert found.count('"title": ') == found.count('"title": null') == COUNT
    crawl.settings["BLOOMDUPE_START_REQUESTS"] = "again"
    run = crawl.run(Titles, CLOSESPIDER_PAGECOUNT=5)
    assert run.stats["bloomdupe/round"] == 2
    assert titles(crawl) == CONTENTS
