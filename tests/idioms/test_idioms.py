"""Every idiom: stopped, run again when finished, and undisturbed."""

from __future__ import annotations

import random

import pytest
from crawls import Stop
from judging import expected, stopped, undisturbed
from stock import Model
from support.engines import Redis
from support.redis_server import RedisServer
from support.repetition import slow_tests_run
from table import IDIOMS, Idiom, load

load()

SIDES = ("before", "after")
KILLS = 20
UNACKED = [one for one in IDIOMS.values() if one.spider.__module__.endswith(".unacked")]
"""Idioms whose children differ in each run."""
BY_DEFAULT = 5
"""One idiom in so many is stopped by default, and all of them in CI."""
every_idiom = pytest.mark.parametrize(
    "idiom",
    [
        pytest.param(
            idiom, id=name, marks=[pytest.mark.slow] if number % BY_DEFAULT else []
        )
        for number, (name, idiom) in enumerate(IDIOMS.items())
    ],
)


def stops_of(idiom: Idiom, model: Model) -> list[list[Stop]]:
    """A few crawls, with the stops of each; F3 of ``tests/crash`` has all points.

    By default a single stop: at the moment that the spider names; or at a request, or a
    commit, in turn. An idiom that takes several runs may not come to that request in
    the first one.
    """
    number = list(IDIOMS).index(idiom.name)
    moments = [[Stop(point=f"here {name}")] for name in idiom.moments]
    nth = 3 if idiom.items is None else 2
    commit = Stop(point=f"{SIDES[number // 2 % 2]} commit", nth=nth)
    request = Stop(request=max(1, model.visits.total() // 3))
    if slow_tests_run():
        return [[request, commit], *moments] if model.visits else moments
    at_commit = number % 2 or idiom.items is not None
    return [*moments, [commit if at_commit else request]][:1]


@every_idiom
def test_a_stopped_idiom_has_the_result_of_scrapy(idiom: Idiom) -> None:
    """Run once more when it is finished, nothing changes: of every eighth idiom."""
    model = expected(idiom)
    assert model.items
    assert model.complaints == []
    eighth = list(IDIOMS).index(idiom.name) % 8 == 0
    for stops in stops_of(idiom, model):
        later = [None] if eighth or slow_tests_run() else []
        verdict = stopped(idiom, model, stops, later=later)
        assert verdict.stopped
        assert verdict.complaints == []


@pytest.mark.slow
@every_idiom
def test_undisturbed_the_items_are_those_of_scrapy(idiom: Idiom) -> None:
    model = undisturbed(idiom)
    assert model.items
    assert model.complaints == []


@pytest.mark.slow
@every_idiom
def test_a_crawl_killed_on_redis_has_the_result_of_scrapy(
    redis_server: RedisServer, idiom: Idiom
) -> None:
    if not idiom.may_be_shared:
        pytest.skip("its script has a JOBDIR")
    model = expected(idiom)
    for stops in stops_of(idiom, model)[:1]:
        verdict = stopped(idiom, model, stops, engine=Redis(redis_server))
        assert verdict.stopped
        assert verdict.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("idiom", UNACKED, ids=lambda idiom: idiom.name)
def test_children_that_differ_in_each_run_are_done_once(idiom: Idiom) -> None:
    """Kill it where they may be done and their page is not, or anywhere."""
    model = expected(idiom)
    assert model.complaints == []
    rng = random.Random(idiom.name)

    def stop() -> Stop:
        where = [Stop(point=f"here {name}") for name in idiom.moments]
        commit = f"{rng.choice(SIDES)} commit"
        where.append(Stop(point=commit, nth=rng.randint(2, 9)))
        where.append(Stop(request=rng.randint(1, model.visits.total())))
        return rng.choice(where)

    kills = 0
    while kills < KILLS:
        stops = [stop() for _ in range(min(4, KILLS - kills))]
        verdict = stopped(idiom, model, stops)
        assert verdict.complaints == [], stops
        kills += len(verdict.stopped)
