"""Runs a verb, and kills itself when a step of it is done: see ``jobs.killed_after``.

Its arguments are the full name of the step, a function; the number of times; and the
verb with its arguments.
"""

from __future__ import annotations

import os
import signal
import sys
from pkgutil import resolve_name
from typing import Any

from bloomdupe.cli.main import main

step, times = sys.argv.pop(1), int(sys.argv.pop(1))
owner, _, name = step.replace(":", ".").rpartition(".")
done = getattr(resolve_name(owner), name)
count = 0


def dying(*arguments: Any, **options: Any) -> Any:
    global count  # noqa: PLW0603 - a process has one step
    answer = done(*arguments, **options)
    count += 1
    if count == times:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


setattr(resolve_name(owner), name, dying)
sys.exit(main())
