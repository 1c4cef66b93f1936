"""Every idiom: stopped, run again when finished, and undisturbed."""

from __future__ import annotations

import pytest
from crawls import Stop
from judging import Model, expected, stopped, undisturbed
from table import IDIOMS, Idiom, load

load()

SIDES = ("before", "after")
# By module, so that the tests of an idiom follow one another. Scrapy crawls it once.
every_idiom = pytest.mark.parametrize(
    "idiom",
    [
        pytest.param(idiom, marks=[pytest.mark.slow] * (idiom.variant_of is not None))
        for idiom in IDIOMS.values()
    ],
    ids=IDIOMS,
    scope="module",
)


def stop_of(idiom: Idiom, model: Model) -> Stop:
    """The moment that the spider names; or a request and a commit, in turn.

    An idiom that takes several runs may not come to that request in the first one.
    """
    number = list(IDIOMS).index(idiom.name)
    if idiom.moments:
        return Stop(point=f"here {idiom.moments[0]}")
    if number % 2 or idiom.items is not None:
        return Stop(point=f"{SIDES[number // 2 % 2]} commit", nth=3)
    return Stop(request=max(1, model.visits.total() // 3))


@every_idiom
def test_a_stopped_idiom_has_the_result_of_scrapy(idiom: Idiom) -> None:
    """Run once more when it is finished, nothing changes: of every twelfth idiom."""
    model = expected(idiom)
    assert model.items
    assert model.complaints == []
    stop = stop_of(idiom, model)
    rerun = list(IDIOMS).index(idiom.name) % 12 == 0  # in CI, each idiom
    verdict = stopped(idiom, model, [stop], rerun=rerun)
    assert verdict.stopped
    assert verdict.complaints == []


# The same with more crawls


@pytest.mark.slow
@every_idiom
def test_undisturbed_the_items_are_those_of_scrapy(idiom: Idiom) -> None:
    model = undisturbed(idiom)
    assert model.items
    assert model.complaints == []


def stops_of(idiom: Idiom, model: Model) -> list[list[Stop]]:
    """A few crawls, with the stops of each; F17 of ``tests/crash`` has all points."""
    third = max(1, model.visits.total() // 3)
    side = SIDES[list(IDIOMS).index(idiom.name) % 2]
    twice = [Stop(request=third), Stop(point=f"{side} commit", nth=3)]
    moments = [[Stop(point=f"here {name}")] for name in idiom.moments]
    return [twice, *moments] if model.visits else moments


@pytest.mark.slow
@every_idiom
def test_stopped_nothing_is_lost_or_done_twice(idiom: Idiom) -> None:
    """And run once more, when it is finished, nothing changes."""
    model = expected(idiom)
    verdicts = [
        stopped(idiom, model, stops, rerun=True) for stops in stops_of(idiom, model)
    ]
    assert verdicts
    assert all(verdict.stopped for verdict in verdicts)
    assert [verdict for verdict in verdicts if verdict.complaints] == []
