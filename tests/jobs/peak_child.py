"""Runs a verb; writes how much its memory has grown at most, in kB, to ``peak``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from bloomdupe.cli.main import main


def memory(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


before = memory("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
code = main(sys.argv[1:])
Path("peak").write_text(str(memory("VmHWM") - before))
sys.exit(code)
