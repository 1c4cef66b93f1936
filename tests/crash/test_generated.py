"""Programs of F25: those that have failed, and how programs are made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import pytest
from generated_spiders import OnDisk, OnRedis, idiom_of
from programs import FEATURES, Program, Step, covering, made
from stock import expected
from support.stops import Stop

ITEM: Step = ["item", "a"]
START: list[Step] = [["ask", "p0", {}]]
IN_MEMORY = {"callback": "closure"}
"""Of a request that cannot be stored."""
START_IN_MEMORY: list[Step] = [["ask", "p0", IN_MEMORY]]


@dataclass(frozen=True)
class Found:
    """A program that has failed, as small as possible."""

    name: str
    bodies: dict[str, list[Step]]
    stops: tuple[Stop, ...] = ()
    start: list[Step] = field(default_factory=lambda: START)
    pages: dict[str, str] = field(default_factory=dict)
    """Those that are not as usual."""

    @property
    def program(self) -> Program:
        bodies = {"start": self.start, **self.bodies}
        return {"pages": self.pages, "bodies": bodies, "uses": []}


def child(body: str, page: str = "p0", by: str = "kwargs", **options: str) -> Step:
    return ["ask", body, {"page": page, "by": by, **options}]


FOUND = [
    Found(
        "children distinguished by meta, in another order in each run",
        {
            "p0": [["shuffled", [child(f"x{n}", by="meta") for n in range(4)]], ITEM],
            **{f"x{n}": [ITEM] for n in range(4)},
        },
        (Stop(point="here p0 0 2"), Stop(point="here p0 0 3")),
    ),
    Found(
        "a link to the page of a child with another callback",
        {
            "p0": [child("x0", "p1"), ["ask", "p1", {}]],
            "p1": [ITEM],
            "x0": [ITEM],
        },
    ),
    Found(
        "a link to the page of a child in memory",
        {
            "p0": [child("x0", "p1", **IN_MEMORY), ["ask", "p1", {}]],
            "p1": [ITEM],
            "x0": [ITEM],
        },
    ),
    Found(
        "a link back to a start page that was retried",
        {"p0": [child("x0"), ITEM], "x0": [ITEM, ["ask", "p0", {}]]},
        pages={"p0": "soft"},
    ),
    Found(
        "a start request in memory has a child with dont_filter",
        {"p0": [child("x0"), ["pause"], ITEM], "x0": [ITEM]},
        (Stop(point="here p0 2"),),
        START_IN_MEMORY,
    ),
    Found(
        "a request takes the place of a page that leads to a request in memory",
        {
            "p0": [["ask", "p1", IN_MEMORY], ITEM, child("x0", by="meta")],
            "p1": [ITEM],
            "x0": [ITEM],
        },
    ),
    Found(
        "a link to a page to which a request in memory leads, too",
        {
            "p0": [["ask", "p1", IN_MEMORY], ["inline", "ok0"], ["ask", "p1", {}]],
            "p1": [ITEM],
        },
    ),
    Found(
        "CloseSpider in the callback of a start request in memory",
        {"p0": [ITEM, ["close"], ["item", "b"]]},
        start=START_IN_MEMORY,
    ),
]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(OnDisk(), id="disk"),
        pytest.param(OnRedis(), id="redis", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "found",
    FOUND,
    ids=lambda found: found.name,
)
def test_a_program_that_has_failed(
    fault: OnDisk | OnRedis, found: Found, tmp_path: Path
) -> None:
    idiom = idiom_of(found.program)
    verdict = fault.crawl(tmp_path, idiom, expected(idiom), [*found.stops])
    assert len(verdict.stopped) == len(found.stops)
    assert verdict.complaints == []


def test_every_pair_of_features_occurs_in_the_share() -> None:
    for fault in (OnDisk, OnRedis):
        rows = covering(fault.features)
        pairs = {pair for row in rows for pair in combinations(sorted(row), 2)}
        assert pairs == set(combinations(sorted(fault.features), 2))
        assert fault.cases >= len(rows)


def test_a_seed_makes_the_same_program() -> None:
    features = tuple(FEATURES)
    programs = [json.dumps(made(seed, features)) for seed in (3, 3, 4)]
    assert programs[0] == programs[1] != programs[2]
