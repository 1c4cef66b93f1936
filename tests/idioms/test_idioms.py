"""Every idiom: stopped, run again when finished, and undisturbed; on Redis: F24."""

from __future__ import annotations

import pytest
from judging import stopped
from stock import Model, expected
from support.repetition import slow_tests_run
from support.stops import Stop
from table import IDIOMS, Idiom, load

load()

SIDES = ("before", "after")
BY_DEFAULT = 5
"""One idiom in so many is stopped by default, and all of them in CI."""


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
        both = [[], [request, commit]] if model.visits else [[]]
        return [*both, *moments]
    at_commit = number % 2 or idiom.items is not None
    return [*moments, [commit if at_commit else request]][:1]


@pytest.mark.parametrize(
    "idiom",
    [
        pytest.param(
            idiom, id=name, marks=[pytest.mark.slow] if number % BY_DEFAULT else []
        )
        for number, (name, idiom) in enumerate(IDIOMS.items())
    ],
)
def test_a_stopped_idiom_has_the_result_of_scrapy(idiom: Idiom) -> None:
    """Run once more when it is finished, nothing changes: of every eighth idiom."""
    model = expected(idiom)
    assert model.items
    eighth = list(IDIOMS).index(idiom.name) % 8 == 0
    for stops in stops_of(idiom, model):
        later = [Stop()] if eighth or slow_tests_run() else []
        verdict = stopped(idiom, model, stops, later=later)
        assert bool(verdict.stopped) == bool(stops)
        assert verdict.complaints == []
