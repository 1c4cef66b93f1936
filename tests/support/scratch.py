"""Where files are that need not outlive the machine."""

from __future__ import annotations

import os
import shutil
import tempfile

MEMORY = "/dev/shm"  # noqa: S108 - tests make folders of their own in it
ROOM = 1 << 30


def use_memory() -> None:
    """Let temporary files be in memory, where syncing takes no time, if there is room.

    Those of this process, and of all that it starts. A kill does not ask where the
    files are, and power cuts are made up from the log of system calls.
    """
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        tempfile.tempdir = os.environ.setdefault("TMPDIR", MEMORY)
