"""F4: power cuts, replayed: every point of a crawl, random parts of the cache."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import strace
from child import each_caught
from disk import STRACE_OPTIONS, TRACE, Disk
from trial import CONTROL_SEED, OK, Fault, Outcome, crashed
from worker import recovered, without_sync, without_sync_of_feeds
from world import Report, World, judge

SIZE = 150
BATCHES = (7, 40)
PARTS = 5
IMAGES = 4
"""Of each point."""


class PowerCuts(Fault):
    """A crawl cut off at any point, with random parts of its unsynced data."""

    number = "F4"
    name = "power cut, replayed from a log of system calls"
    cases = PARTS
    needs = "strace"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _cuts(folder, seed)

    def control(self, folder: Path) -> list[Outcome]:
        """LMDB syncs nothing; feeds sync nothing."""

        def cuts(before: Callable[[], None]) -> Callable[[Path], list[Outcome]]:
            return lambda place: _cuts(place, CONTROL_SEED, 12, before=before)

        return each_caught(folder, cuts(without_sync), cuts(without_sync_of_feeds))


class CreationCuts(PowerCuts):
    """The same while the store is created: it opens or is absent, never stuck."""

    number = "F4"
    name = "power cut during creation, replayed"
    cases = 2

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _cuts(folder, seed, 150, creation=True)

    def control(self, folder: Path) -> list[Outcome]:
        return _cuts(folder, CONTROL_SEED, 15, before=without_sync, creation=True)


def _cuts(
    folder: Path,
    seed: int,
    limit: int | None = None,
    *,
    before: Callable[[], None] | None = None,
    creation: bool = False,
) -> list[Outcome]:
    """Judge images of every fifth point, or so many of all."""
    rng = random.Random(seed)
    world = World(seed // PARTS, SIZE)
    crawl = folder / "crawl"
    crawl.mkdir()
    # Below a directory that is not there yet, as JOBDIR usually is not.
    store = Path("job", "store")
    batch = BATCHES[seed // PARTS % len(BATCHES)]
    run = strace.run(
        folder / "log", crawl / store, world, batch, before=before,
        trace=TRACE, strace_options=STRACE_OPTIONS,
    )  # fmt: skip
    if run.status:
        return [crashed(f"undisturbed, it ended with {run.status}: {run.errors}")]
    (folder / "log").unlink()
    points = sum(1 for _ in _points(Disk(crawl), run.calls, creation=creation))
    chosen = set(range(seed % PARTS, points, PARTS))
    images = IMAGES
    if limit is not None:
        images = -(-limit // points)
        chosen = set(rng.sample(range(points), limit // images))
    disk = Disk(crawl)
    outcomes = []
    for point, call in enumerate(_points(disk, run.calls, creation=creation)):
        if point not in chosen:
            continue
        report = Report()
        report.read(disk.report)
        for number in range(images):
            place = folder / f"image-{point}-{number}"
            disk.top.build(place, rng)
            how = judge if number and not creation else recovered
            outcome = how(place / store, world, report.copy())
            if outcome == OK:
                shutil.rmtree(place)
            where = f"cut {point} of {points} ({call.name}), image {number}"
            outcomes.append(outcome.at(where))
    return outcomes


def _points(
    disk: Disk, calls: list[strace.Call], *, creation: bool
) -> Iterator[strace.Call]:
    """Replay; yield each call that matters while it is in progress."""
    for call in disk.replay(calls):
        yield call
        if creation and disk.report.count(b"a ") > 1:
            return
