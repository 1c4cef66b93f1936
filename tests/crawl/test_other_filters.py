"""Crawls with a DUPEFILTER_CLASS that is not ours, killed and run again."""

from __future__ import annotations

import pytest
from spiders.other_filters import Tree
from support.crawl import FEEDS, Crawl

pytestmark = pytest.mark.slow

PAGES = {f"/{number}": "x" for number in range(15)}
SETTINGS = {"FEEDS": FEEDS}


def found(crawl: Crawl) -> list[int]:
    return sorted(item["page"] for item in crawl.items())


@pytest.mark.parametrize(
    "name",
    ["scrapy.dupefilters.BaseDupeFilter", "spiders.other_filters.Mine"],
    ids=["none", "own"],
)
def test_requests_of_a_page_in_progress_come_once(crawl: Crawl, name: str) -> None:
    crawl.settings["DUPEFILTER_CLASS"] = name
    for page in (1, 3):
        run = crawl.killed(Tree, stop=f"here page {page}")
        assert (
            f"DUPEFILTER_CLASS is {name}, which keeps its fingerprints apart" in run.log
        )
    assert crawl.run(Tree).finish_reason == "finished"
    assert found(crawl) == [*range(15)]
    # A finished job stays finished.
    assert crawl.run(Tree).requested == []
    assert found(crawl) == [*range(15)]
