"""F11: LMDB's map is full, in a put, a delete or a commit, again and again."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kills import listen
from trial import CONTROL_SEED, Fault, Outcome, crashed
from worker import fork_worker, run_to_end
from world import Report, World, judge

from bloomdupe.errors import StoreError
from bloomdupe.store.lmdb import environment
from bloomdupe.store.lmdb.lmdb_store import LmdbStore

STORES = 5
"""A case."""
LEAST_MAP, MOST_MAP = 1 << 16, 1 << 17
"""Bytes; the real one begins with 1 GiB."""
BATCHES = (3, 30, 300)


class MapFull(Fault):
    """A crawl with a tiny map, killed in the middle, that goes on to its end."""

    number = "F11"
    name = "map full in a put, a delete or a commit"
    trials = 25

    def quick(self, folder: Path, seed: int) -> list[Outcome]:
        return [_crawl(folder, seed)]

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        numbers = range(STORES)
        return [_crawl(folder / str(n), STORES * seed + n) for n in numbers]

    def control(self, folder: Path) -> list[Outcome]:
        return [_crawl(folder, CONTROL_SEED, grows=False, deaf=True)]


def _crawl(place: Path, seed: int, *, grows: bool = True, **options: Any) -> Outcome:
    place.mkdir(exist_ok=True)
    path = place / "job" / "store"
    rng = random.Random(seed)
    world = World(seed, 1000)
    report = Report()
    options["before"] = functools.partial(
        _tiny_map, rng.randrange(LEAST_MAP, MOST_MAP, 4096), grows
    )
    pid, reading = fork_worker(path, world, rng.choice(BATCHES), **options)
    listen(pid, reading, rng.randint(50, 500), report)
    outcome = judge(path, world, report)
    if outcome.verdict != "ok":
        return outcome
    status = run_to_end(path, world, report, **options)
    if status:
        return crashed(f"run to its end, it ended with {status}")
    if not any(note.startswith(b"full in") for note in report.notes):
        return Outcome("silently wrong", "the map was never full")
    return judge(path, world, report, ended=True)


def _tiny_map(
    size: int, grows: bool, report: Callable[[bytes], object]
) -> None:  # fmt: skip
    """Begin with a small map, and report where it was full; perhaps never grow."""
    environment.MAP_BYTES = size
    grow = LmdbStore._grow_map

    def watched(store: LmdbStore) -> None:
        trace = sys.exc_info()[2]
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        assert trace is not None
        report(b"full in %b\n" % trace.tb_frame.f_code.co_name.encode())
        if not grows:
            raise StoreError("the map is full")
        grow(store)

    LmdbStore._grow_map = watched  # type: ignore[method-assign,assignment]
