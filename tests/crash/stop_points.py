"""F17: a crawl that is stopped before and after everything that reaches a disk.

And F18: the same points raise instead. The crawls are those of ``tests/idioms``, as is
their judge; its ``stops.py`` lists the points.
"""

from __future__ import annotations

import abc
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from crawls import Crawl, Stop
from judging import Verdict, stopped, undisturbed
from table import Idiom, load
from trial import OK, Fault, Outcome, crashed, lost, silently_wrong

STRIDE = 48
"""A case tries every so many-th point of an idiom."""
RAISED = (
    *("EIO", "ENOSPC", "EDQUOT", "EROFS"),
    *("MemoryError", "ValueError", "KeyboardInterrupt"),
)


def every_idiom() -> list[Idiom]:
    """Return all idioms by name."""
    return [idiom for _, idiom in sorted(load().items())]


def outcome_of(verdict: Verdict) -> Outcome:
    """Put the complaints of the idioms' judge into an outcome."""
    words = f"{', '.join(verdict.stopped)}: {'; '.join(verdict.complaints)}"
    if not verdict.complaints:
        return OK
    if "did not end" in words:
        return crashed(words)
    if any(word in words for word in ("missing", "never asked", "ended with")):
        return lost(words)
    return silently_wrong(words)


def tried(
    folder: Path,
    idiom: Idiom,
    choose: Callable[[list[str]], Iterable[list[Stop]]],
    without: str | None = None,
) -> list[Outcome]:
    """Crawl an idiom with each of the chosen lists of stops.

    ``choose`` is given the names of all points that an undisturbed crawl passes. A
    crawl in which no stop took place does not count.
    """
    model = undisturbed(idiom)
    with Crawl(idiom) as crawl:
        points = crawl.run(trace=True).points
    verdicts = [
        stopped(idiom, model, stops, without=without, place=folder)
        for stops in choose(points)
    ]
    return [outcome_of(verdict) for verdict in verdicts if verdict.stopped]


class EveryPoint(Fault):
    """One crawl a point. Case 0 is the first idiom, case 1 the next one, and so on."""

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return self._tried(folder, seed, STRIDE)

    def _tried(self, folder: Path, seed: int, stride: int) -> list[Outcome]:
        idioms = every_idiom()
        rng = random.Random(seed)
        first = seed // len(idioms) % stride

        def choose(points: list[str]) -> Iterator[list[Stop]]:
            for number in range(first + 1, len(points) + 1, stride):
                yield from self.stops(number, points, rng)

        return tried(folder, idioms[seed % len(idioms)], choose)

    @abc.abstractmethod
    def stops(
        self, number: int, points: list[str], rng: random.Random
    ) -> Iterator[list[Stop]]:
        """Yield what is to be tried at a point: the stops of each crawl."""


class StopPoints(EveryPoint):
    """``kill -9`` there; in a second crawl once more while it goes on."""

    number = "F17"
    name = "`kill -9` of a crawl at every commit, write and sync, for each idiom"
    trials = 60

    def stops(
        self, number: int, points: list[str], rng: random.Random
    ) -> Iterator[list[Stop]]:
        yield [Stop(number=number)]
        yield [Stop(number=number), Stop(number=rng.randint(1, len(points)))]

    def control(self, folder: Path) -> list[Outcome]:
        """Feeds that forget and write their lines while the checkpoint is prepared."""
        stops = [[Stop(point="after pwrite items", nth=nth)] for nth in (1, 3)]
        plain = load()["plain"]
        return tried(folder, plain, lambda _: stops, "consuming_while_preparing")


class RaisingPoints(EveryPoint):
    """The errors that a disk, the memory, a plugin or a user can raise there."""

    number = "F18"
    name = "an exception at every commit, write and sync, for each idiom"
    trials = 50
    cases = 2

    def stops(
        self, number: int, points: list[str], rng: random.Random
    ) -> Iterator[list[Stop]]:
        del points
        yield [Stop(number=number, action=rng.choice(RAISED))]

    def control(self, folder: Path) -> list[Outcome]:
        """A checkpoint that failed is taken for a good one."""
        stops = [
            [Stop(point="before fdatasync items", action="EIO")],
            [Stop(point="before pwrite items", nth=3, action="ENOSPC")],
        ]
        plain = load()["plain"]
        return tried(folder, plain, lambda _: stops, "stopping_on_failure")
