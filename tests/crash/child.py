"""Child: judge in a fork, for a damaged store might kill its reader."""

from __future__ import annotations

import dataclasses
import json
import os
import traceback
from collections.abc import Callable

from trial import Outcome, crashed


def in_child(function: Callable[[], Outcome]) -> Outcome:
    """Call a function in a fork; a signal or an exception there is ``crashed``."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            os.write(writing, json.dumps(dataclasses.astuple(function())).encode())
            status = 0
        except BaseException:  # noqa: BLE001 - a forked child must not go on as its parent
            outcome = crashed(traceback.format_exc())
            os.write(writing, json.dumps(dataclasses.astuple(outcome)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        return crashed(f"the process that opened it ended with {status}")
    return Outcome(*json.loads(data))
