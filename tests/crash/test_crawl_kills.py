"""F3: real crawls of the sample site, stopped at random times, run again to the end."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import outputs
import pytest
from crawl_kills import (
    ROBOTS,
    StoppedCrawl,
    crawl_with_stops,
    interrupt_twice,
    kill,
    terminate,
)
from support.harness import sample_process

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

CRAWLS = int(os.environ.get("BLOOMDUPE_CRASH_CRAWLS", "3"))
"""Of five kills each; the soak has more, see README.md here."""
MEMORY_LIMITS = max(1, CRAWLS // 8)
STOPS = 5
"""Of each crawl."""


@pytest.fixture(scope="session")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, list[tuple[str, ...]]]:
    """Return what a crawl puts out that nothing has happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    trial = crawl_with_stops(folder, 0, kill, 0, *outputs.OPTIONS)
    return trial.outputs()


@pytest.mark.parametrize("seed", range(CRAWLS))
def test_killed_at_random_times_nothing_is_lost_or_done_again(
    tmp_path: Path, seed: int, undisturbed: dict[str, list[tuple[str, ...]]]
) -> None:
    trial = crawl_with_stops(tmp_path, seed, kill, STOPS, *outputs.OPTIONS)
    assert trial.stops
    assert trial.outputs() == undisturbed
    assert not trial.lost()
    assert not trial.unasked()
    assert not trial.done_again()
    print("undone after each kill:", trial.undone, "allowed:", trial.allowed)
    for undone, allowed in zip(trial.undone, trial.allowed, strict=True):
        assert undone <= allowed


def test_lines_before_their_requests_are_done_stand_twice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: dict[str, list[tuple[str, ...]]],
) -> None:
    """The control: the same judge sees the items that should not be there."""
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))  # noqa: PTH120
    theirs = "scrapy.extensions.feedexport.FeedExporter"
    extensions = json.dumps({theirs: None, "lines_at_once.LinesAtOnce": 0})
    options = [*outputs.OPTIONS, "-s", f"EXTENSIONS={extensions}"]
    trial = crawl_with_stops(tmp_path, 1, kill, 3, *options)
    found = trial.outputs()
    assert found["jsonl"] != undisturbed["jsonl"]
    assert found["csv"] != undisturbed["csv"]
    assert found["sqlite"] == undisturbed["sqlite"]


def test_marks_before_pushes_lose_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the same judge sees the loss when there is one."""
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))  # noqa: PTH120
    option = "SCHEDULER=marks_first.MarksFirst"
    trial = crawl_with_stops(tmp_path, 1, kill, 3, "-s", option)
    assert trial.lost()


def test_stopped_by_two_interrupts_nothing_is_lost(tmp_path: Path) -> None:
    trial = crawl_with_stops(tmp_path, 2, interrupt_twice, 3)
    assert trial.stops
    assert not trial.lost()
    assert not trial.unasked()
    assert not trial.done_again()


def test_stopped_by_sigterm_nothing_is_fetched_again(tmp_path: Path) -> None:
    trial = crawl_with_stops(tmp_path, 3, terminate, 3)
    assert trial.stops
    assert not trial.lost()
    surplus = trial.server.requests() - trial.server.site.expected_requests()
    assert {path for _, path in surplus} <= {ROBOTS}


def test_out_of_memory_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: crawl/test_scheduler.py, where another error counts as done."""
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))  # noqa: PTH120
    hungry = ["-s", 'EXTENSIONS={"hungry.Hungry": 1}']
    with sample_process(tmp_path, pages=300, delay=0.005) as server:
        trial = StoppedCrawl(tmp_path, server, 4)
        for _ in range(MEMORY_LIMITS):
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
