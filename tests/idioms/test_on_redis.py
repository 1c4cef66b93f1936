"""Idioms on the store on Redis: one worker with one partition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from crawls import IdiomCrawl, Stop
from judging import expected, judge, run_to_end, stopped
from support.repetition import slow_tests_run
from table import IDIOMS, load

from bloomdupe.store.place import SWITCH

if TYPE_CHECKING:
    from support.redis_server import RedisServer

load()

FEW = list(IDIOMS)[:: 4 if slow_tests_run() else 64]
BESIDE = {"crawl_from_timer"}
"""A task of the spider goes on beside its pages when a commit is refused, but the
attributes of the spider are those of the last commit: its own counter tells it that
there is more to do, which nobody does."""


@pytest.mark.parametrize("name", FEW)
def test_a_stopped_idiom_has_the_result_of_scrapy(
    name: str, logged_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    idiom = IDIOMS[name]
    model = expected(idiom)
    url = logged_redis.url("").removesuffix("#")
    monkeypatch.setenv(SWITCH, url)
    stop = Stop(point=f"{'before' if len(name) % 2 else 'after'} commit", nth=3)
    verdict = stopped(idiom, model, [stop])
    assert verdict.complaints == []
    with logged_redis.client() as client:
        assert client.keys("bd:{/*")


@pytest.mark.parametrize("name", [name for name in FEW if name not in BESIDE])
def test_a_worker_whose_commits_are_refused_reads_again_and_goes_on(
    name: str, logged_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    idiom = IDIOMS[name]
    model = expected(idiom)
    monkeypatch.setenv(SWITCH, logged_redis.url("").removesuffix("#"))
    with IdiomCrawl(idiom, without="being_the_only_owner") as crawl:
        complaints = run_to_end(crawl)
        assert "goes on from the last commit" in crawl.runs[0].log
        # Its pages in progress are fetched again, each time.
        crawl.idiom = replace(idiom, repeats=None)
        assert complaints + judge(model, crawl) == []
