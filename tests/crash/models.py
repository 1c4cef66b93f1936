"""F13: the frontier against a model, with crashes and full maps among the rules."""

from __future__ import annotations

import tempfile
import traceback
from pathlib import Path

import hypothesis
from hypothesis.stateful import run_state_machine_as_test
from support import frontier_model as model
from trial import CONTROL_SEED, OK, Fault, Outcome, silently_wrong

from bloomdupe.store.store import Part, Store

EXAMPLES = 50
"""A case; each of 50 steps."""


class Models(Fault):
    """Random work on a frontier, compared with the same on a few dictionaries."""

    number = "F13"
    name = "model against store: crash, reopen, map full"
    cases = 3

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _examples(folder, seed, *hypothesis.Phase)

    def control(self, folder: Path) -> list[Outcome]:
        """Commits that write nothing."""

        def lies(_: Store, *parts: Part) -> None:
            for part in parts:
                part.done()

        Store.commit = lies  # type: ignore[method-assign,assignment]
        return _examples(folder, CONTROL_SEED, hypothesis.Phase.generate)


def _examples(folder: Path, seed: int, *phases: hypothesis.Phase) -> list[Outcome]:
    """Do so in this process, which is of no more use."""
    tempfile.tempdir = str(folder)
    for limit in model.LIMITS:
        setattr(*limit)
    options = hypothesis.settings(
        model.OPTIONS,
        max_examples=EXAMPLES,
        phases=phases,
        database=None,
        print_blob=False,
    )
    machine = hypothesis.seed(seed)(model.FrontierMachine)
    try:
        run_state_machine_as_test(machine, settings=options)
    except Exception:  # noqa: BLE001 - any error of the machine or the frontier
        return [silently_wrong(traceback.format_exc()[-2000:])]
    return [OK] * EXAMPLES
