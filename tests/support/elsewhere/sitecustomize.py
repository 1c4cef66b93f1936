"""Hides the names of Linux from bloomdupe, which then does as on macOS.

    PYTHONPATH=$PWD/tests/support/elsewhere pytest -q -n 2 tests/store

Python imports this module at the start of each process that has this folder in
``PYTHONPATH``. Tests and other packages find everything as it was. ``sysctl`` in this
folder knows the name that macOS has for a boot.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HIDDEN = ("/proc/", "/sys/")


def hide(event: str, arguments: tuple[object, ...]) -> None:
    """Be the audit hook: let bloomdupe find none of the hidden files."""
    if event == "open" and str(arguments[0]).startswith(HIDDEN) and _is_ours():
        raise FileNotFoundError(f"{arguments[0]} is hidden")


def _is_ours() -> bool:
    """Whether bloomdupe opens a file, perhaps with ``pathlib``."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("pathlib"):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).startswith("bloomdupe.")


del os.posix_fallocate, os.fdatasync
os.environ["PATH"] = f"{Path(__file__).parent}:{os.environ['PATH']}"
sys.addaudithook(hide)
