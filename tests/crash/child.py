"""Child: judge in a fork, for a damaged store might kill its reader."""

from __future__ import annotations

import dataclasses
import json
import os
import traceback
from collections.abc import Callable

from support.forks import ended, forked
from trial import Outcome, crashed


def in_child(function: Callable[[], Outcome]) -> Outcome:
    """Call a function in a fork; a signal or an exception there is ``crashed``."""
    reading, writing = os.pipe()

    def judge() -> int:
        try:
            outcome = function()
        except BaseException:  # noqa: BLE001 - its traceback is the outcome
            outcome = crashed(traceback.format_exc())
        os.write(writing, json.dumps(dataclasses.astuple(outcome)).encode())
        return 0

    pid = forked(judge)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    if status := ended(pid):
        return crashed(f"the process that opened it ended with {status}")
    return Outcome(*json.loads(data))
