"""F8: a disk that is full, then has room again.

A small tmpfs (as root), and ``RLIMIT_FSIZE``: for a bare frontier, and for a real
crawl.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spiders.follow import Follow
from support.crawl import Crawl
from support.site import Site, graph
from trial import CONTROL_SEED, OK, Fault, Outcome, crashed, lost, silently_wrong
from worker import REFUSED, fork_worker, run_to_end
from world import Report, World, judge

WORLD = 1_500
LEAST, MOST = 100, 450
"""Kilobytes; the whole crawl takes more."""
PAGES = 1_500


class FullDisk(Fault):
    """A crawl that fills its disk, stops, and goes on when there is room."""

    number = "F8"
    name = "disk really full, then freed"
    trials = 12
    excusable = True

    def missing(self) -> str | None:
        return None if os.geteuid() == 0 else "needs root, to mount a tmpfs"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return [
            _onsmall_disk(folder, seed),
            _with_limit(folder, seed),
            _real_crawl(folder, seed),
        ]

    def control(self, folder: Path) -> list[Outcome]:
        return [_with_limit(folder, CONTROL_SEED, deaf=True)]


@contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[None]:
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(place)],
        check=True,
    )
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def make_room(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=100m", str(place)], check=True)


def _stopped(
    folder: Path, path: Path, world: World, batch: int, report: Report, **options: Any
) -> Outcome:
    """Whether the first run ends as it should."""
    place = folder / "errors"
    pid, reading = fork_worker(path, world, batch, errors=place, **options)
    with os.fdopen(reading, "rb") as pipe:
        report.read(pipe)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    errors = place.read_text()
    if status == 0:
        return silently_wrong("nobody noticed")
    if status != REFUSED or len(errors.splitlines()) != 1:
        return crashed(f"exit status {status}: {errors}")
    return OK


def _onsmall_disk(folder: Path, seed: int) -> Outcome:
    rng = random.Random(seed)
    world = World(seed, WORLD)
    place = folder / "disk"
    report = Report()
    with small_disk(place, rng.randint(LEAST, MOST)):
        path = place / "job" / "store"
        outcome = _stopped(folder, path, world, rng.choice([5, 50]), report)
        if outcome != OK:
            return outcome
        make_room(place)
        outcome = judge(path, world, report)
        return _goes_on(path, world, report) if outcome == OK else outcome


def _goes_on(path: Path, world: World, report: Report) -> Outcome:
    status = run_to_end(path, world, report)
    if status:
        return crashed(f"run to its end, it ended with {status}")
    return judge(path, world, report, ended=True)


def _with_limit(folder: Path, seed: int, **options: Any) -> Outcome:
    rng = random.Random(seed)
    # The store meets the limit, or the output file does before it.
    world = World(seed, WORLD, feeds=rng.random() < 0.5 and not options)
    path = folder / "limited" / "job" / "store"
    path.parents[1].mkdir()
    limit = rng.randint(LEAST, MOST) << 10
    report = Report()
    outcome = _stopped(
        folder, path, world, rng.choice([5, 50]), report,
        before=lambda _: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        **options,
    )  # fmt: skip
    if outcome != OK and not options:
        return outcome
    outcome = judge(path, world, report)
    return _goes_on(path, world, report) if outcome == OK else outcome


def _real_crawl(folder: Path, seed: int) -> Outcome:
    rng = random.Random(seed)
    pages = graph(PAGES)
    with Site(pages) as site, Crawl(folder, site) as crawl:
        crawl.starts = ("/0",)
        crawl.settings |= {"BLOOMDUPE_EXACT": True, "BLOOMDUPE_EXPECTED_URLS": 1000}
        place = crawl.folder / "job"
        with small_disk(place, rng.randint(90, 160)):
            log = crawl.run(Follow, status=1).log
            if "No space left on device" not in log:
                return crashed(f"the log does not say what is wrong: {log[-2000:]}")
            make_room(place)
            run = crawl.run(Follow)
            if run.finish_reason != "finished":
                return crashed(f"with room again, it ended: {run.log[-2000:]}")
    missing = set(pages) - set(site.requested)
    return lost(f"never asked for {sorted(missing)[:9]}") if missing else OK
