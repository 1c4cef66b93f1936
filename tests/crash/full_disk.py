"""F8: a disk that is full, then has room again.

A small tmpfs (as root), and ``RLIMIT_FSIZE``: for a bare frontier, and for a real
crawl.
"""

from __future__ import annotations

import faulthandler
import os
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from child import each_caught, in_child
from spiders.follow import Follow
from support.crawl import Crawl
from support.site import Site, graph
from trial import CONTROL_SEED, OK, Fault, Outcome, crashed, lost, silently_wrong
from worker import Worker, recovered, stopped_clearly
from world import Report, World

from bloomdupe import BloomFilter
from bloomdupe.errors import SettingError, StoreError, StoreFullError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store import files

WORLD = 1_500
LEAST, MOST = 100, 450
"""Kilobytes; the whole crawl takes more."""
PAGES = 1_500
MOST_OF_A_NEW_STORE = 100
"""Kilobytes; with a frontier it takes 60."""


class FullDisk(Fault):
    """A crawl that fills its disk, stops, and goes on when there is room.

    And a store that is created, or opened first, where there is hardly any room: it is
    refused, and can be used when there is room; or it is there.
    """

    number = "F8"
    name = "disk really full, then freed; creation on a nearly full disk"
    cases = 4
    needs = "root"
    excusable = True

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        sizes = range(4, MOST_OF_A_NEW_STORE + 1, 4)
        return [
            _on_small_disk(folder, seed),
            _with_limit(folder, seed),
            _real_crawl(folder, seed),
            *(_created(folder / str(size), size, seed) for size in sizes),
            *_opened_without_room(folder),
        ]

    def control(self, folder: Path) -> list[Outcome]:
        """A failed checkpoint counts as good; LMDB maps a lock file without room."""
        return each_caught(
            folder,
            lambda place: [_with_limit(place, CONTROL_SEED, deaf=True)],
            _without_room_for_locks,
        )


def _without_room_for_locks(folder: Path) -> list[Outcome]:
    """Have no space for LMDB's lock file before LMDB maps it."""
    here = os.getpid()

    def careless(path: Path) -> None:
        del path
        if os.getpid() != here:
            faulthandler.disable()  # it dies of SIGBUS, as it should: not a word

    files.make_lock_file = careless
    return _opened_without_room(folder)


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
    subprocess.run(["sync"], check=True)
    subprocess.run(["mount", "-o", "remount,size=100m", str(place)], check=True)


def _filled(
    folder: Path, path: Path, world: World, batch: int, report: Report, **options: Any
) -> Outcome:
    """Whether a crawl that fills its disk ends as it should."""
    place = folder / "errors"
    status = Worker(path, world, batch, errors=place, **options).finish(report)
    return stopped_clearly(status, place.read_text())


def _on_small_disk(folder: Path, seed: int) -> Outcome:
    rng = random.Random(seed)
    world = World(seed, WORLD)
    place = folder / "disk"
    report = Report()
    with small_disk(place, rng.randint(LEAST, MOST)):
        path = place / "job" / "store"
        outcome = _filled(folder, path, world, rng.choice([5, 50]), report)
        if outcome != OK:
            return outcome
        make_room(place)
        return recovered(path, world, report)


def _with_limit(folder: Path, seed: int, **options: Any) -> Outcome:
    rng = random.Random(seed)
    # The store meets the limit, or the output file does before it.
    world = World(seed, WORLD, feeds=rng.random() < 0.5 and not options)
    path = folder / "limited" / "job" / "store"
    path.parents[1].mkdir()
    limit = rng.randint(LEAST, MOST) << 10
    report = Report()
    outcome = _filled(
        folder, path, world, rng.choice([5, 50]), report,
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        **options,
    )  # fmt: skip
    return outcome if outcome != OK and not options else recovered(path, world, report)


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


# Creation


def _created(disk: Path, kilobytes: int, seed: int) -> Outcome:
    rng = random.Random(f"{seed} {kilobytes}")
    path = disk / "job" / "store"
    with small_disk(disk, kilobytes):
        if rng.random() < 0.5:
            path.parent.mkdir()
        outcome = _used(path, lambda: make_room(disk))
    return outcome.at(f"{kilobytes} kB")


def _opened_without_room(folder: Path) -> list[Outcome]:
    """A store that comes from a backup, so without the files of locks."""
    outcomes = []
    for blocks in range(4):
        disk = folder / f"full-{blocks}"
        path = disk / "job" / "store"
        with small_disk(disk, 1000):
            _use(path)
            for file in path.iterdir():
                if file.name not in (files.DATA, files.MARKER):
                    file.unlink()
            free = os.statvfs(disk).f_bavail
            (disk / "filling").write_bytes(bytes((free - blocks) * 4096))
            outcome = _used(path, (disk / "filling").unlink)
        outcomes.append(outcome.at(f"opened with {blocks} blocks free"))
    return outcomes


def _used(path: Path, make_room: Callable[[], None]) -> Outcome:
    """Use a store where there is no room, and then with room."""
    outcome = in_child(lambda: _use_in_no_room(path))
    if outcome != OK:
        return outcome
    make_room()
    return in_child(lambda: _use_with_room(path)).at("then with room")


def _use_in_no_room(path: Path) -> Outcome:
    try:
        _use(path)
    except StoreFullError as error:
        if "make room" in str(error) and str(path.parent) in str(error):
            return OK
        return lost(f"the refusal does not help: {error}")
    except SettingError as error:
        return OK if "bytes of disk free" in str(error) else lost(str(error))
    except StoreError as error:
        return lost(f"{type(error).__name__}: {error}")
    return OK


def _use_with_room(path: Path) -> Outcome:
    try:
        _use(path)
    except StoreError as error:
        return lost(f"{type(error).__name__}: {error}")
    with BloomFilter.open(path) as seen:
        return OK if "a" in seen else silently_wrong("what was durable is gone")


def _use(path: Path) -> None:
    with BloomFilter.open(path, 1000, 1e-6) as seen:
        frontier = Frontier(seen)
        seen.add(b"a")
        frontier.push("host", 0, b"payload")
        frontier.checkpoint()
