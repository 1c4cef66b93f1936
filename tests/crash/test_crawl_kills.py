"""F3: real crawls of the sample site, stopped at random times, run again to the end.

The judge is the log of the server, and a look into the store after each stop.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING

import outputs
import pytest
from harness import DEADLINE, Project, sample_process
from scrapy import Request
from scrapy.utils.request import fingerprint

from bloomdupe import BloomFilter
from bloomdupe.frontier import Frontier
from bloomdupe.rank import BEFORE_ALL
from bloomdupe.serializer import url_of
from crawler.sample_site import canonical_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from harness import SampleProcess

INTERVAL = 0.1
"""Seconds between checkpoints."""
IN_FLIGHT = 16
"""Requests that Scrapy has under way at most."""
CRAWLS = int(os.environ.get("BLOOMDUPE_CRASH_CRAWLS", "8"))
MEMORY_LIMITS = CRAWLS // 8
STOPS = 5
"""Of each crawl."""
ROBOTS = "/robots.txt"


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()


def interrupt_twice(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)  # let it begin to stop
    process.send_signal(signal.SIGINT)


def terminate(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)


class Trial:
    """A crawl in many runs, and what is found out about it."""

    def __init__(
        self, folder: Path, server: SampleProcess, seed: int, *options: str
    ) -> None:
        print(f"seed {seed}")
        self.rng = random.Random(seed)
        self.project = Project(folder / "project")
        self.server = server
        self.options = ["-a", f"url={server.url}", *options]
        self.options += ["-s", f"BLOOMDUPE_CHECKPOINT_INTERVAL={INTERVAL}"]
        self.before: Counter[str] = Counter()
        self.undone: list[int] = []
        """After each stop: requests of that run for pages not done for good."""
        self.allowed: list[int] = []
        """And how many there may be: in flight, and of about one interval."""
        self.done: dict[str, int] = {}
        """Pages done for good after some stop, and how often requested by then."""

    def run(self, stop: Callable[[subprocess.Popen[str]], None] | None) -> None:
        """Run to the end, or until a random number of requests later."""
        process = self.project.start(*self.options)
        arrivals: list[tuple[float, int]] = []
        goal = self.paths().total() + self.rng.randint(1, 80)
        deadline = time.monotonic() + DEADLINE
        try:
            while stop is not None and process.poll() is None:
                assert time.monotonic() < deadline
                count = self.paths().total()
                arrivals.append((time.monotonic(), count))
                if count >= goal:
                    time.sleep(self.rng.uniform(0, INTERVAL))
                    stop(process)
                    break
                time.sleep(0.005)
            _, log = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
            process.wait()
        if process.returncode >= 0:
            assert "Traceback" not in log, log
        if stop is None:
            assert "(finished)" in log, log
            return
        since = arrivals[-1][0] - 2 * INTERVAL
        before = max((n for when, n in arrivals if when < since), default=0)
        self.allowed.append(self.paths().total() - before + IN_FLIGHT)
        self.look_into_store()

    def paths(self) -> Counter[str]:
        paths = Counter[str]()
        for (_, path), count in self.server.requests().items():
            paths[path] += count
        return paths

    def look_into_store(self) -> None:
        requested = self.paths()
        store = self.project.folder / self.server.folder / "bloomdupe"
        done: dict[str, int] = {}
        if store.exists():
            with BloomFilter.open(store) as seen:
                Frontier(seen).verify()
                owed = urls_in(seen)
                base = self.server.url.rstrip("/")
                done = {
                    path: count
                    for path, count in requested.items()
                    if path not in owed and fingerprint(Request(base + path)) in seen
                }
        self.done.update(done)
        of_this_run = requested - self.before
        self.before = requested
        self.undone.append(
            sum(n for path, n in of_this_run.items() if path not in {*done, ROBOTS})
        )

    # The verdict

    def outputs(self) -> dict[str, list[tuple[str, ...]]]:
        return outputs.read(self.project.folder, self.server.url)

    def lost(self) -> Counter[tuple[int, str]]:
        return self.server.site.expected_requests() - self.server.requests()

    def unasked(self) -> set[str]:
        expected = {path for _, path in self.server.site.expected_requests()}
        return set(self.paths()) - expected

    def done_again(self) -> dict[str, int]:
        paths = self.paths()
        return {
            path: paths[path] - count
            for path, count in self.done.items()
            if paths[path] > count
        }


def urls_in(seen: BloomFilter) -> set[str]:
    store = seen._store
    assert store is not None
    with store.snapshot() as snapshot:
        return {
            canonical_path(url_of(found.payload))
            for slot in snapshot.slots()
            for found in snapshot.requests(slot.number, BEFORE_ALL)
        }


def crawl_with_stops(
    folder: Path,
    seed: int,
    stop: Callable[[subprocess.Popen[str]], None],
    stops: int,
    *options: str,
) -> Trial:
    with sample_process(folder, pages=300, delay=0.005) as server:
        trial = Trial(folder, server, seed, *options)
        for _ in range(stops):
            trial.run(stop)
        trial.run(None)
        return trial


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
    assert not trial.lost()
    assert not trial.unasked()
    assert not trial.done_again()


def test_stopped_by_sigterm_nothing_is_fetched_again(tmp_path: Path) -> None:
    trial = crawl_with_stops(tmp_path, 3, terminate, 3)
    assert not trial.lost()
    surplus = trial.server.requests() - trial.server.site.expected_requests()
    assert {path for _, path in surplus} <= {ROBOTS}


def test_out_of_memory_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: tests/test_scheduler.py, where another error counts as done."""
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))  # noqa: PTH120
    hungry = ["-s", 'EXTENSIONS={"hungry.Hungry": 1}']
    with sample_process(tmp_path, pages=300, delay=0.005) as server:
        trial = Trial(tmp_path, server, 4)
        for _ in range(MEMORY_LIMITS):
            more = trial.rng.randint(1 << 20, 12 << 20)
            monkeypatch.setenv("HUNGRY_BYTES", str(more))
            with trial.project.start(*trial.options, *hungry) as process:
                try:
                    _, log = process.communicate(timeout=5)
                except subprocess.TimeoutExpired:  # no memory left even to stop
                    process.kill()
                    _, log = process.communicate()
            assert "Memory has run out" in log or "MemoryError" in log
            print(more, process.returncode, trial.paths().total(), "requests")
        trial.run(None)
    assert not trial.lost()
    assert not trial.unasked()
