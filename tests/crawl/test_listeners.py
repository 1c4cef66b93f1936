"""The signal that is sent before a checkpoint, and receivers that fail."""

from __future__ import annotations

from typing import Any

import pytest
from spiders.checkpoint import Count
from support.crawl import FEEDS, Crawl
from support.site import Pages, links

PAGES: Pages = {"/": links("/a", "/b"), "/a": "", "/b": ""}
SETTINGS = {"FEEDS": FEEDS}


def pipeline(name: str) -> dict[str, Any]:
    return {"ITEM_PIPELINES": {f"spiders.checkpoint.{name}": 1}}


def test_if_a_listener_fails_nothing_is_committed_and_the_crawl_stops(
    crawl: Crawl,
) -> None:
    crawl.settings |= pipeline("Failing")
    crawl.site.hold("/a")
    process = crawl.start(Count, FAIL=True)
    process.until_logged("so the crawl stops")
    crawl.site.release()
    first = process.wait()
    assert first.status == 1
    assert first.finish_reason != "finished"
    assert "spiders.checkpoint.Failing.checkpoint" in first.log
    assert "Traceback" in first.log
    assert "the database is gone" in first.log
    assert set(crawl.run(Count).requested) == {"/", "/a", "/b"}
    assert sorted(item["path"] for item in crawl.items()) == ["", "a", "b"]


@pytest.mark.parametrize("name", ["Asynchronous", "Deferring"])
def test_a_listener_that_is_a_coroutine_is_refused(crawl: Crawl, name: str) -> None:
    run = crawl.run(Count, status=1, **pipeline(name))
    assert "is a coroutine" in run.log
