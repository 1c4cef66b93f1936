"""Idioms on the store on Redis: one worker with one partition."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from crawls import Crawl, Stop
from judging import expected, judge, run_to_end, stopped
from support.repetition import slow_tests_run
from table import IDIOMS, load

from bloomdupe.store.place import SWITCH

if TYPE_CHECKING:
    from support.redis_server import RedisServer

load()

REFUSED = 3
"""Commits of a crawl that are refused."""
FEW = list(IDIOMS)[:: 4 if slow_tests_run() else 64]


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


@pytest.mark.parametrize("name", FEW)
def test_a_worker_whose_commits_are_refused_reads_again_and_goes_on(
    name: str, logged_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    idiom = IDIOMS[name]
    model = expected(idiom)
    monkeypatch.setenv(SWITCH, logged_redis.url("").removesuffix("#"))
    with Crawl(idiom) as crawl, logged_redis.client() as client:
        ended = threading.Event()
        refused: list[int] = []

        def refuse() -> None:
            """Let steps pass that are not the worker's own, several times."""
            seen = 0
            while not ended.is_set() and len(refused) < REFUSED:
                for head in client.keys(f"bd:{{{crawl.folder}*:head"):
                    step = int(client.hget(head, "ended") or 0)
                    if step > seen + 2:
                        steps = head.removesuffix(b"head") + b"steps"
                        for token in client.hkeys(steps):
                            client.hincrby(steps, token, 9)
                        refused.append(step)
                        seen = step
                ended.wait(0.005)

        thread = threading.Thread(target=refuse)
        thread.start()
        complaints: list[str] = []
        for _ in range(REFUSED + 1):
            complaints = run_to_end(crawl)
            # Refused while the crawl is closing, it cannot go on: the next run does.
            if "store of the crawl failed" not in crawl.runs[-1].log:
                break
        ended.set()
        thread.join()
        assert refused
        assert any("goes on from the last commit" in run.log for run in crawl.runs)
        # Its pages in progress are fetched again, each time.
        crawl.idiom = replace(idiom, repeats=None)
        assert complaints + judge(model, crawl) == []
