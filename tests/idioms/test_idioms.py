"""Every idiom: stopped, undisturbed, and run again when finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from crawls import Stop
from judging import Model, of_scrapy, stopped, undisturbed
from table import IDIOMS, Idiom, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.forks import Forks

load()

SIDES = ("before", "after")
# By module, so that the tests of an idiom follow one another and share its model.
every_idiom = pytest.mark.parametrize(
    "idiom", IDIOMS.values(), ids=IDIOMS, scope="module"
)


@pytest.fixture(scope="session")
def models(forks: Forks) -> Callable[[Idiom], Model]:
    """Crawl each idiom undisturbed once, when it is asked for."""
    known: dict[str, Model] = {}

    def model(idiom: Idiom) -> Model:
        if idiom.name not in known:
            known[idiom.name] = undisturbed(idiom, forks)
        return known[idiom.name]

    return model


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
def test_stopped_and_run_again_it_is_as_with_scrapy(idiom: Idiom, forks: Forks) -> None:
    """And run once more, when it is finished, nothing changes."""
    model = of_scrapy(idiom, forks)
    assert model.items
    assert model.complaints == []
    stop = stop_of(idiom, model)
    verdict = stopped(idiom, forks, model, [stop], rerun=True)
    assert verdict.stopped
    assert verdict.complaints == []


# The same with more crawls: undisturbed, then stopped more than once


@pytest.mark.slow
@every_idiom
def test_undisturbed_the_items_are_those_of_scrapy(
    idiom: Idiom, models: Callable[[Idiom], Model]
) -> None:
    model = models(idiom)
    assert model.items
    assert model.complaints == []


def stops_of(idiom: Idiom, model: Model) -> list[list[Stop]]:
    """A few crawls, with the stops of each; F17 of ``tests/crash`` has all points."""
    third = max(1, model.visits.total() // 3)
    side = SIDES[list(IDIOMS).index(idiom.name) % 2]
    return [
        [Stop(request=third), Stop(point=f"{side} commit", nth=3)],
        *([Stop(point=f"here {name}")] for name in idiom.moments),
    ]


@pytest.mark.slow
@every_idiom
def test_stopped_nothing_is_lost_or_done_twice(
    idiom: Idiom, forks: Forks, models: Callable[[Idiom], Model]
) -> None:
    model = models(idiom)
    verdicts = [stopped(idiom, forks, model, stops) for stops in stops_of(idiom, model)]
    assert any(verdict.stopped for verdict in verdicts)
    assert [v for v in verdicts if v.complaints] == []


@pytest.mark.slow
@every_idiom
def test_run_again_when_finished_nothing_changes(
    idiom: Idiom, models: Callable[[Idiom], Model]
) -> None:
    assert models(idiom).again == []
