"""The soak counts right, and keeps the trials that fail."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from soak import Soak, table
from trial import OK, Fault, Outcome, lost


class Fake(Fault):
    number = "F0"
    name = "a fault of our own"
    cases = 3

    def __init__(self, run: Callable[[Path], list[Outcome]], control: Outcome) -> None:
        self._run = run
        self._control = control

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return self._run(folder)

    def control(self, folder: Path) -> list[Outcome]:
        return [self._control]


def fails(folder: Path) -> list[Outcome]:
    (folder / "store").write_text("evidence")
    return [OK, lost("a page")]


def dies(_: Path) -> list[Outcome]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


@pytest.mark.parametrize(
    ("run", "control", "failed", "row"),
    [
        (lambda _: [OK] * 2, lost("a page"), False, "6 | 0 | 0 | 0 | 0.5 | caught"),
        (lambda _: [OK] * 2, OK, True, "6 | 0 | 0 | 0 | 0.5 | NOT CAUGHT"),
        (fails, lost("a page"), True, "6 | 3 | 0 | 0 | 0.5 | caught"),
        (dies, lost("a page"), True, "3 | 0 | 0 | 3 | 1 | caught"),
    ],
)
def test_the_soak_counts_trials_and_keeps_those_that_fail(
    run: Callable[[Path], list[Outcome]],
    control: Outcome,
    failed: bool,
    row: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    soak = Soak([Fake(run, control)], 2, tmp_path)
    soak.run(7)
    assert soak.tallies[0].failed == failed
    assert f"a fault of our own | {row} |" in table(soak.tallies)
    kept = {place.name: [*place.iterdir()] for place in tmp_path.iterdir()}
    assert len(kept) == (3 if run in (fails, dies) else 0)
    if run is fails:
        assert (tmp_path / "F0-7" / "store").read_text() == "evidence"
        assert "--only F0 --seed 7 --cases 1" in capfd.readouterr().err
