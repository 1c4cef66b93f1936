"""Every idiom: undisturbed, stopped at chosen points, and run again when finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from crawls import Stop
from judging import Model, stopped, undisturbed
from table import IDIOMS, Idiom, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.forks import Forks

load()

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
    side = ("before", "after")[list(IDIOMS).index(idiom.name) % 2]
    return [
        [Stop(request=third), Stop(point=f"{side} commit", nth=3)],
        *([Stop(point=f"here {name}")] for name in idiom.moments),
    ]


@every_idiom
def test_stopped_nothing_is_lost_or_done_twice(
    idiom: Idiom, forks: Forks, models: Callable[[Idiom], Model]
) -> None:
    model = models(idiom)
    verdicts = [stopped(idiom, forks, model, stops) for stops in stops_of(idiom, model)]
    assert any(verdict.stopped for verdict in verdicts)
    assert [v for v in verdicts if v.complaints] == []


@every_idiom
def test_run_again_when_finished_nothing_changes(
    idiom: Idiom, models: Callable[[Idiom], Model]
) -> None:
    assert models(idiom).again == []
