"""A few trials of every fault class, and its control: the judge is not blind."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from every_fault import EVERY_FAULT
from trial import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trial import Fault

pytestmark = pytest.mark.slow

every_fault = pytest.mark.parametrize(
    "fault", EVERY_FAULT, ids=lambda fault: fault.number
)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bloomdupe-", dir=scratch()) as name:
        yield Path(name)


def need(fault: Fault) -> None:
    reason = fault.missing()
    if reason is not None:
        if os.environ.get("BLOOMDUPE_TEST_ALL") and not fault.excusable:
            pytest.fail(reason)
        pytest.skip(reason)


@every_fault
def test_nothing_is_lost_or_wrong(fault: Fault, folder: Path) -> None:
    need(fault)
    outcomes = fault.quick(folder, 1)
    assert outcomes
    assert [outcome for outcome in outcomes if outcome.verdict != "ok"] == []


@every_fault
def test_the_control_is_caught(fault: Fault, folder: Path) -> None:
    need(fault)
    assert any(outcome.verdict != "ok" for outcome in fault.control(folder, 1))
