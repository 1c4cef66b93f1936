"""F8: a disk that is full, then has room again: a small tmpfs, which needs root."""

from __future__ import annotations

import faulthandler
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from child import in_child
from spiders.follow import Follow
from support.crawl import Crawl
from support.site import Site, graph
from trial import (
    OK,
    Fault,
    Outcome,
    crashed,
    lost,
    refused_well,
    silently_wrong,
)
from worker import crawl, recovered
from world import Report, World

from bloomdupe.errors import BloomDupeError
from bloomdupe.store import files

MOST = 450
"""Kilobytes of a disk."""
PER_KILOBYTE = 4
"""Requests, which take more than that."""
LEAST = 400
"""Requests, so that there is something to be done."""
PAGES = 1_500
MOST_OF_A_NEW_STORE = 100
"""Kilobytes; with a frontier it takes 60."""
HELP = ("make room", "bytes of disk free", "No space left on device")
"""One of these must be said where there is no room."""


class FullDisk(Fault):
    """A crawl that fills its disk, stops, and goes on when there is room.

    It has hardly begun then, or a store is created, or opened first, where there is
    hardly any room.
    """

    number = "F8"
    name = "disk really full, then freed; creation on a nearly full disk"
    cases = 4
    needs = "root"
    excusable = True

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        rng = random.Random(seed)
        sizes = [*range(4, MOST_OF_A_NEW_STORE, 4), rng.randint(100, MOST)]
        return [
            # First: a fork of a process that has crawled needs half of the time.
            *_opened_without_room(folder),
            *(_on_small_disk(folder / f"{size} kB", size, rng) for size in sizes),
            _real_crawl(folder, seed),
        ]

    def control(self, folder: Path) -> list[Outcome]:
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


def _on_small_disk(disk: Path, kilobytes: int, rng: random.Random) -> Outcome:
    path = disk / "job" / "store"
    world = World(rng.randrange(1 << 20), max(LEAST, PER_KILOBYTE * kilobytes))
    with small_disk(disk, kilobytes):
        if rng.random() < 0.5:
            path.parent.mkdir()
        batch = rng.choice([5, 50])
        room = partial(make_room, disk)
        filled = partial(_filled, path, world, batch, Report(), room)
        return in_child(filled).at(disk.name)


def _opened_without_room(folder: Path) -> list[Outcome]:
    """A store that comes from a backup, so without the files of locks."""
    outcomes = []
    world, batch = World(1, LEAST), 50
    for blocks in range(4):
        disk = folder / f"full-{blocks}"
        path, report = disk / "job" / "store", Report()
        with small_disk(disk, 5_000):
            crawl(path, world, report.read, batch, stop_after=1)
            for file in path.iterdir():
                if file.name != files.DATA:
                    file.unlink()
            filling, free = disk / "filling", os.statvfs(disk).f_bavail
            filling.write_bytes(bytes((free - blocks) * 4096))
            filled = partial(_filled, path, world, batch, report, filling.unlink)
            outcomes.append(in_child(filled).at(disk.name))
    return outcomes


def _filled(
    path: Path,
    world: World,
    batch: int,
    report: Report,
    make_room: Callable[[], object],
) -> Outcome:
    """Crawl until the disk is full; with room again, crawl to the end."""
    try:
        crawl(path, world, report.read, batch)
        outcome = silently_wrong("nobody noticed")
    except BloomDupeError as error:
        outcome = refused_well(error, path.parents[1], *HELP)
    if outcome == OK:
        make_room()
        outcome = recovered(path, world, report)
    return outcome


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
