"""F13: the frontier against a model, with crashes and full maps among the rules."""

from __future__ import annotations

import traceback
from pathlib import Path

import hypothesis
from hypothesis.stateful import run_state_machine_as_test
from support import frontier_model as model
from trial import CONTROL_SEED, OK, Fault, Outcome, silently_wrong

from bloomdupe.store import store as store_module
from bloomdupe.store.store import Part

EXAMPLES = 50
"""A case; each of 50 steps."""


class Models(Fault):
    """Random work on a frontier, compared with the same on a few dictionaries."""

    number = "F13"
    name = "model against store: crash, reopen, map full"
    cases = 3

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _examples(folder, seed, EXAMPLES)

    def control(self, folder: Path) -> list[Outcome]:
        """Commits that write nothing."""
        commit = store_module.Store.commit

        def lies(_: store_module.Store, *parts: Part) -> None:
            for part in parts:
                part.done()

        store_module.Store.commit = lies  # type: ignore[method-assign,assignment]
        try:
            return _examples(
                folder, CONTROL_SEED, EXAMPLES, (hypothesis.Phase.generate,)
            )
        finally:
            store_module.Store.commit = commit  # type: ignore[method-assign]


def _examples(
    folder: Path,
    seed: int,
    count: int,
    phases: tuple[hypothesis.Phase, ...] = tuple(hypothesis.Phase),
) -> list[Outcome]:
    class Machine(model.FrontierMachine):
        """A class of its own, for the seed is kept in it."""

        memory = folder

    hypothesis.seed(seed)(Machine)
    before = [(module, name, getattr(module, name)) for module, name, _ in model.LIMITS]
    for module, name, value in model.LIMITS:
        setattr(module, name, value)
    try:
        run_state_machine_as_test(
            Machine,
            settings=hypothesis.settings(
                model.OPTIONS,
                max_examples=count,
                phases=phases,
                database=None,
                print_blob=False,
            ),
        )
    except Exception:  # noqa: BLE001 - any error of the machine or the frontier
        return [silently_wrong(traceback.format_exc()[-2000:])]
    finally:
        for module, name, value in before:
            setattr(module, name, value)
    return [OK] * count
