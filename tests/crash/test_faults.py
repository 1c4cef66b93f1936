"""A few trials of every fault class, and its control: the judge is not blind."""

from __future__ import annotations

import os
import shutil

import pytest
from every_fault import EVERY_FAULT
from soak import Case, Tally
from support.forks import forks
from trial import Fault, Outcome

pytestmark = pytest.mark.slow

CASES = 8
"""Of which one must count."""

every_fault = pytest.mark.parametrize(
    "fault", EVERY_FAULT, ids=lambda fault: fault.number
)


def need(fault: Fault) -> None:
    reason = fault.missing()
    if reason is not None:
        if os.environ.get("BLOOMDUPE_TEST_ALL") and not fault.excusable:
            pytest.fail(reason)
        pytest.skip(reason)


def outcomes_of(fault: Fault, seed: int, *, control: bool) -> list[Outcome]:
    """Run a little of a class in a process of its own, as the soak does."""
    forks()  # so that all cases share the servers
    case = Case.start(Tally(fault), seed, control=control, quick=True)
    try:
        return case.finish()
    finally:
        shutil.rmtree(case.folder)


@every_fault
def test_nothing_is_lost_or_wrong(fault: Fault) -> None:
    need(fault)
    # A case does not count if its crawl had ended before the fault could strike.
    cases = (outcomes_of(fault, seed, control=False) for seed in range(1, CASES))
    outcomes = next(filter(None, cases), [])
    assert outcomes
    assert [outcome for outcome in outcomes if outcome.verdict != "ok"] == []


@every_fault
def test_the_control_is_caught(fault: Fault) -> None:
    need(fault)
    outcomes = outcomes_of(fault, 1, control=True)
    assert any(outcome.verdict != "ok" for outcome in outcomes)
