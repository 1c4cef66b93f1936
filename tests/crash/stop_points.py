"""F3 and F24: a crawl that is stopped around all that reaches a disk, or Redis."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from child import each_caught
from judging import OfStops, stopped
from stock import expected
from support.engines import Redis
from support.redis_server import RedisServer
from support.stops import Stop
from table import Idiom, load
from trial import Fault, Outcome, outcome_of

STRIDE = 70
"""A case tries every so many-th point of an idiom."""
AT_THE_END = "before note the end"
"""From here on everything is done; the last commit, and the end of the process."""
SIGNALS = ("SIGINT", "SIGINT twice", "SIGTERM")
RAISED = (
    *("EIO", "ENOSPC", "EDQUOT", "EROFS"),
    *("MemoryError", "ValueError", "KeyboardInterrupt"),
)
IDLE_POINTS = 11
"""Of a run that finds its job finished."""


IDIOMS = [idiom for _, idiom in sorted(load().items())]
SHARED = [idiom for idiom in IDIOMS if idiom.may_be_shared]

Crawling: TypeAlias = Callable[..., OfStops]
"""Crawls an idiom with a stop after the other, then to the end."""


def on_disk(folder: Path, *crawl: Any, **options: Any) -> OfStops:
    return stopped(*crawl, place=folder, **options)


def on_redis(folder: Path, *crawl: Any, **options: Any) -> OfStops:
    """Do so on a Redis, one worker after the other."""
    with RedisServer(folder / "redis") as server:
        return on_disk(folder, *crawl, engine=Redis(server), **options)


def tried(
    crawl: Crawling,
    idiom: Idiom,
    choose: Callable[[list[str]], Iterable[list[Stop]]],
    folder: Path,
    most: int | None = None,
    **options: Any,
) -> list[Outcome]:
    """Crawl an idiom undisturbed, then with each of the chosen lists of stops.

    ``choose`` is given the names of all points that an undisturbed crawl passes. A
    crawl in which no stop took place does not count. Try ``most`` that count.
    """
    model = expected(idiom)
    verdict = crawl(folder, idiom, model, [])
    if not verdict:
        return [outcome_of(verdict)]
    verdicts = (
        crawl(folder, idiom, model, stops, **options)
        for stops in choose(verdict.points)
    )
    counted = (
        outcome_of(one).at(", ".join(one.stopped))
        for one in verdicts
        if one.stopped or not one
    )
    return [*islice(counted, most)]


def killed(
    crawl: Crawling, idiom: Idiom, seed: int, folder: Path, times: int = 1
) -> list[Outcome]:
    """Crawl an idiom undisturbed, and so many times with kills by chance.

    A crawl is killed once, or up to three times while it goes on.
    """
    rng, requests = random.Random(seed), expected(idiom).visits.total()

    def choose(points: list[str]) -> Iterator[list[Stop]]:
        for _ in range(times):
            shares = [1, 2, 2][: rng.randint(1, 3)]
            yield [stop(points, share) for share in shares]
        # A slow crawl may not come to the other stops.
        yield [Stop(point="here start")]

    def stop(points: list[str], share: int) -> Stop:
        kinds = [
            Stop(number=rng.randint(1, max(1, len(points) // share))),
            Stop(request=rng.randint(1, max(1, requests // share))),
        ]
        if steps := [point for point in points if point.startswith("here ")]:
            kinds.append(Stop(point=rng.choice(steps)))
        return rng.choice(kinds)

    return tried(crawl, idiom, choose, folder, times)


class StopPoints(Fault):
    """A few crawls a point. Case 0 is the first idiom, case 1 the next, and so on."""

    number = "F3"
    name = "`kill -9`, Ctrl-C, SIGTERM, an error at every commit, write and sync"
    cases = 6

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        idiom, rng = IDIOMS[seed % len(IDIOMS)], random.Random(seed)
        first = seed // len(IDIOMS) % STRIDE

        def choose(points: list[str]) -> Iterator[list[Stop]]:
            numbers = range(first + 1, len(points) + 1, STRIDE)
            stops = [Stop(number=number) for number in numbers]
            there = AT_THE_END in points
            if there and (after := [*reversed(points)].index(AT_THE_END)):
                last = rng.randint(1, after)
                stops.append(Stop(number=last, since=AT_THE_END))
            for stop in stops:
                yield [stop]
                yield [stop, Stop(number=rng.randint(1, len(points)))]
                yield [replace(stop, action=rng.choice(RAISED))]
                if not idiom.waits:
                    yield [replace(stop, action=rng.choice(SIGNALS))]

        idle = Stop(number=rng.randint(1, IDLE_POINTS))
        return tried(on_disk, idiom, choose, folder, later=(idle, Stop()))

    def control(self, folder: Path) -> list[Outcome]:
        """Take three protections out, each by itself."""
        writes = [[Stop(point="after pwrite items", nth=nth)] for nth in (1, 3)]
        raised = [
            [Stop(point="before fdatasync items", action="EIO")],
            [Stop(point="before pwrite items", nth=3, action="ENOSPC")],
        ]
        last = [[Stop(point=AT_THE_END)]]
        plain = load()["plain"]

        def taking_out(
            without: str, stops: list[list[Stop]]
        ) -> Callable[[Path], list[Outcome]]:
            return partial(tried, on_disk, plain, lambda _: stops, without=without)

        return each_caught(
            folder,
            taking_out("consuming_while_preparing", writes),
            taking_out("stopping_on_failure", raised),
            taking_out("remembering_starts", last),
        )


class SharedIdioms(Fault):
    """Case 0 is the first idiom, case 1 the next one, and so on."""

    number = "F24"
    name = "`kill -9` of workers on Redis that crawl as everyday spiders do"
    cases = 77
    """Each of the idioms, and some once more."""
    needs = "redis-server"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        """Kill each worker before an answer, or at any point."""
        return killed(on_redis, SHARED[seed % len(SHARED)], seed, folder)

    def control(self, folder: Path) -> list[Outcome]:
        """Only the worker that has logged in is logged in."""
        stops, without = [Stop(point="here logged in")] * 2, "keeping_cookies"
        login = load()["login"]
        return tried(on_redis, login, lambda _: [stops], folder, without=without)
