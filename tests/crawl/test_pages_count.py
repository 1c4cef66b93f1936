"""Whatever a page yields counts when the page counts, however often a crawl is killed.

The model of :mod:`support.page_model` is the judge of the rule: see
:mod:`bloomdupe.crawl.leases.leases`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.page_model import judged
from support.repetition import slow_tests_run

from bloomdupe.crawl.leases.leases import Leases
from bloomdupe.frontier.frontier import Frontier

PROGRAMS = 2_000 if slow_tests_run() else 150
CONTROLS = 60
MEMORY = Path("/dev/shm")  # noqa: S108 - or each commit would wait for a disk


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


def test_nothing_is_lost_and_nothing_comes_twice(place: Path) -> None:
    killed = 0
    for seed in range(PROGRAMS):
        found = judged(seed, place / str(seed))
        assert not found.missing, f"seed {seed}: {found}"
        assert not found.doubled, f"seed {seed}: {found}"
        killed += found.kills
    assert killed > PROGRAMS


def test_a_judge_sees_requests_that_are_durable_before_their_pages(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = Frontier.push

    def pushed(*arguments: object, **options: object) -> object:
        return push(*arguments, **options | {"volatile": False})  # type: ignore[arg-type]

    monkeypatch.setattr(Frontier, "push", pushed)
    found = [judged(seed, place / str(seed)) for seed in range(CONTROLS)]
    assert sum(bool(one.doubled) for one in found) > CONTROLS // 4


def test_a_judge_sees_pages_that_do_not_wait_for_their_parts(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect = Leases.expect_part

    def expected(self: Leases, entry: object, *rest: object, **options: object) -> None:
        expect(self, entry, None, *rest[1:], **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Leases, "expect_part", expected)
    found = [judged(seed, place / str(seed)) for seed in range(CONTROLS)]
    assert sum(bool(one.missing) for one in found) > CONTROLS // 8
