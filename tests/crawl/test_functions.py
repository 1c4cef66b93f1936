"""Crawls with lambdas as callbacks, killed and changed on the way."""

from __future__ import annotations

from collections import Counter

import pytest
from spiders.functions import (
    Lambdas,
    change_lambda,
    store_methods_only,
)
from support.crawl import FEEDS, Before, Crawl, Run
from support.engines import on_both_engines
from support.site import Pages, Site, graph

SIZE = 60
EVERY = 25


@pytest.fixture
def pages() -> Pages:
    return graph(SIZE)


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.settings |= {"FEEDS": FEEDS, "LOG_LEVEL": "INFO"}
    crawl.starts = ("/0",)
    return crawl


def killed_after(
    crawl: Crawl, answers: int, items: int, before: Before | None = None
) -> Run:
    """Kill a run that has so many answers, once all runs have put out these items."""
    crawl.site.hold_after(answers)
    process = crawl.start(Lambdas, before=before)
    process.until(lambda: crawl.site.shut and len(crawl.items()) >= items)
    run = process.kill()
    crawl.site.release()
    return run


def once_each(crawl: Crawl) -> bool:
    return Counter(item["page"] for item in crawl.items()) == Counter(range(SIZE))


@on_both_engines
def test_a_tree_ends_although_it_is_killed_again_and_again(crawl: Crawl) -> None:
    """A page's requests are stored, so it is done without the pages below it."""
    for number in range(SIZE // EVERY):
        killed_after(crawl, EVERY, EVERY * (number + 1))
    run = crawl.run(Lambdas)
    assert run.finish_reason == "finished"
    assert "scheduler/unserializable" not in run.stats
    assert once_each(crawl)


@on_both_engines
def test_a_job_of_an_earlier_version_goes_on(crawl: Crawl, site: Site) -> None:
    """Its lambdas were in memory, so the pages that yielded them come again."""
    run = killed_after(crawl, 15, 0, before=store_methods_only)
    assert "cannot be stored" in run.log
    assert not crawl.items()
    killed_after(crawl, EVERY, EVERY)
    assert crawl.run(Lambdas).finish_reason == "finished"
    assert once_each(crawl)
    assert site.count["/0"] == 2


@on_both_engines
def test_a_lambda_that_has_changed_is_kept_and_named(crawl: Crawl) -> None:
    killed_after(crawl, EVERY, EVERY)
    run = crawl.run(Lambdas, before=change_lambda, status=1)
    assert run.stats["bloomdupe/unrestorable"] > 0
    assert not run.requested
    assert "in Lambdas.parse is not there any more" in run.log
    assert "Traceback" not in run.log
    assert len(crawl.items()) == EVERY
    assert crawl.run(Lambdas).finish_reason == "finished"
    assert once_each(crawl)
