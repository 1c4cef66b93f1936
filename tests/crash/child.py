"""Child: a fork that may die, of the damage that it judges or by a hang."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from support.forks import forked
from trial import OK, Outcome, crashed


class Child:
    """A fork that calls a function, and answers with its outcomes."""

    def __init__(self, function: Callable[[], list[Outcome]]) -> None:
        self.answer, sender = Pipe(duplex=False)
        self.process = forked(partial(_answer, function, sender))
        sender.close()

    def outcomes(self) -> list[Outcome]:
        """Wait for its outcomes; a signal or an exception there is ``crashed``."""
        found: list[Outcome] | None = None
        try:
            found = self.answer.recv()
        except EOFError:
            pass
        except SystemExit:  # this process is to end
            self.process.terminate()
            raise
        finally:
            self.process.join()
        ended = f"the process ended with {self.process.exitcode}"
        return [crashed(ended)] if found is None else found


def _answer(function: Callable[[], list[Outcome]], sender: Connection) -> None:
    # Ended early, it unmounts its disks all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        outcomes = function()
    except BaseException:  # noqa: BLE001 - its traceback is the outcome
        outcomes = [crashed(traceback.format_exc())]
    sender.send(outcomes)


def in_child(function: Callable[[], Outcome]) -> Outcome:
    """Call a function in a fork, for a damaged store might kill its reader."""
    return Child(lambda: [function()]).outcomes()[0]


def each_caught(
    folder: Path, *controls: Callable[[Path], list[Outcome]]
) -> list[Outcome]:
    """Return the outcomes of controls, each of which must be caught; else none is bad.

    Each is given a process and a folder of its own.
    """
    found: list[Outcome] = []
    for number, control in enumerate(controls):
        place = folder / f"control{number}"
        place.mkdir(parents=True)
        outcomes = Child(partial(control, place)).outcomes()
        if all(outcome == OK for outcome in outcomes):
            return [OK]
        found += outcomes
    return found
