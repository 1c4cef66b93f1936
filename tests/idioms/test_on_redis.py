"""Idioms on the store on Redis: one worker with one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from crawls import Stop
from judging import expected, stopped
from support.repetition import slow_tests_run
from table import IDIOMS, load

from bloomdupe.store.place import SWITCH

if TYPE_CHECKING:
    from support.redis_server import RedisServer

load()

FEW = list(IDIOMS) if slow_tests_run() else list(IDIOMS)[::40]


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
