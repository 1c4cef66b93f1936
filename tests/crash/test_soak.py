"""The soak counts right, and keeps the trials that fail."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from soak import Soak, plan, table
from trial import OK, Fault, Outcome, lost


class Fake(Fault):
    number = "F0"
    name = "a fault of our own"
    cases = 3

    def __init__(self, run: Callable[[Path], list[Outcome]], *, good: bool) -> None:
        self._run = run
        self._good = good

    def run(self, folder: Path, seed: int) -> list[Outcome]:  # noqa: ARG002
        return self._run(folder)

    def control(self, folder: Path) -> list[Outcome]:  # noqa: ARG002
        return [OK] if self._good else [lost("as it should be")]


def run(fault: Fault, keep: Path) -> Soak:
    soak = Soak([fault], 2, keep)
    soak.run(plan(soak, 7))
    return soak


def test_as_many_cases_as_asked_for(tmp_path: Path) -> None:
    soak = run(Fake(lambda _: [OK, OK], good=False), tmp_path)
    (tally,) = soak.tallies
    assert tally.trials == 6
    assert not tally.failed
    row = tally.row()
    assert row[2:] == [f"{tally.trials}", "0", "0", "0", row[6], "caught"]
    assert not list(tmp_path.iterdir())
    assert "a fault of our own" in table(soak.tallies)


def test_a_control_that_is_not_caught_fails(tmp_path: Path) -> None:
    (tally,) = run(Fake(lambda _: [OK, OK], good=True), tmp_path).tallies
    assert tally.failed
    assert tally.row()[-1] == "NOT CAUGHT"


def test_failing_trials_are_kept(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(folder: Path) -> list[Outcome]:
        (folder / "store").write_text("evidence")
        return [OK, lost("a page")]

    soak = Soak([Fake(fails, good=False)], 2, tmp_path)
    soak.run(plan(soak, 7, 1))
    assert soak.tallies[0].failed
    assert soak.tallies[0].verdicts == {"ok": 1, "lost": 1}
    assert (tmp_path / "F0-7" / "store").read_text() == "evidence"
    log = capfd.readouterr().err
    assert "lost: a page" in log
    assert "--only F0 --seed 7 --cases 1" in log


def test_a_case_that_dies_has_crashed(tmp_path: Path) -> None:
    def dies(_: Path) -> list[Outcome]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []

    soak = Soak([Fake(dies, good=False)], 2, tmp_path)
    soak.run(plan(soak, 7, 2))
    assert soak.tallies[0].verdicts == {"crashed": 2}
