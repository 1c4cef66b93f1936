"""Pages whose children differ in each run: killed twenty times; once by test_idioms."""

from __future__ import annotations

import random

import pytest
from crawls import Stop
from judging import expected, stopped
from table import IDIOMS, Idiom, load

load()

pytestmark = pytest.mark.slow

KILLS = 20
UNACKED = [one for one in IDIOMS.values() if one.spider.__module__.endswith(".unacked")]


def stop_of(idiom: Idiom, requests: int, rng: random.Random) -> Stop:
    """Return a stop where the children may be done and the page is not, or anywhere."""
    where = [Stop(point=f"here {name}") for name in idiom.moments]
    where += [
        Stop(point=f"{rng.choice(['before', 'after'])} commit", nth=rng.randint(2, 9)),
        Stop(request=rng.randint(1, requests)),
    ]
    return rng.choice(where)


@pytest.mark.parametrize("idiom", UNACKED, ids=lambda idiom: idiom.name)
def test_children_that_differ_in_each_run_are_done_once(idiom: Idiom) -> None:
    model = expected(idiom)
    assert model.complaints == []
    rng = random.Random(idiom.name)
    kills = 0
    while kills < KILLS:
        requests = model.visits.total()
        stops = [stop_of(idiom, requests, rng) for _ in range(min(4, KILLS - kills))]
        verdict = stopped(idiom, model, stops)
        assert verdict.complaints == [], stops
        kills += len(verdict.stopped)
