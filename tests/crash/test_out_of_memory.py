"""Real crawls of the sample site that run out of memory, run again to the end."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from crawl_kills import StoppedCrawl
from support.harness import sample_process

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def test_out_of_memory_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: crawl/test_scheduler.py, where another error counts as done."""
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))  # noqa: PTH120
    hungry = ["-s", 'EXTENSIONS={"hungry.Hungry": 1}']
    with sample_process(tmp_path, pages=300, delay=0.005) as server:
        trial = StoppedCrawl(tmp_path, server, 4)
        more = trial.rng.randint(1 << 20, 12 << 20)
        monkeypatch.setenv("HUNGRY_BYTES", str(more))
        with trial.project.start(*trial.options, *hungry) as process:
            try:
                _, log = process.communicate(timeout=5)
            except subprocess.TimeoutExpired:  # no memory left even to stop
                process.kill()
                _, log = process.communicate()
        if process.returncode >= 0:  # there was enough left to say so
            assert "Memory has run out" in log or "MemoryError" in log
        print(more, process.returncode, trial.paths().total(), "requests")
        trial.run(None)
    assert not trial.lost()
    assert not trial.unasked()
