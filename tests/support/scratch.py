"""Where files are that need not outlive the machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - tests make folders of their own in it
ROOM = 1 << 28


def scratch() -> Path | None:
    """Return a folder in memory, where syncing takes no time, if there is room.

    A kill does not ask where the files are, and power cuts are made up from the log
    of system calls.
    """
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        return MEMORY
    return None
