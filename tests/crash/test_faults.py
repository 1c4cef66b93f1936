"""A few trials of every fault class, and its control: the judge is not blind."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from every_fault import EVERY_FAULT

if TYPE_CHECKING:
    from pathlib import Path

    from trial import Fault

every_fault = pytest.mark.parametrize("fault", EVERY_FAULT, ids=lambda f: f.number)


def need(fault: Fault) -> None:
    reason = fault.missing()
    if reason is not None:
        if os.environ.get("BLOOMDUPE_TEST_ALL") and not fault.excusable:
            pytest.fail(reason)
        pytest.skip(reason)


@every_fault
def test_nothing_is_lost_or_wrong(fault: Fault, tmp_path: Path) -> None:
    need(fault)
    outcomes = fault.quick(tmp_path, 1)
    assert outcomes
    assert [outcome for outcome in outcomes if outcome.verdict != "ok"] == []


@every_fault
def test_the_control_is_caught(fault: Fault, tmp_path: Path) -> None:
    need(fault)
    assert any(outcome.verdict != "ok" for outcome in fault.control(tmp_path, 1))
