"""F3 and F24: a crawl that is stopped around all that reaches a disk, or Redis."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from child import each_caught
from crawls import Stop
from judging import Verdict, expected, stopped, undisturbed
from stock import Model
from support.engines import Redis
from support.redis_server import RedisServer
from table import Idiom, load
from trial import OK, Fault, Outcome, lost, silently_wrong

STRIDE = 70
"""A case tries every so many-th point of an idiom."""
AT_THE_END = "before note the end"
"""From here on everything is done; the last commit, and the end of the process."""
SIGNALS = ("SIGINT", "SIGINT twice", "SIGTERM")
RAISED = (
    *("EIO", "ENOSPC", "EDQUOT", "EROFS"),
    *("MemoryError", "ValueError", "KeyboardInterrupt"),
)
KILLS = 2
"""Of a crawl on Redis."""
AROUND, PASSED = ("before ", "after "), 45
"""Points around each step of a commit, and how many of them a kill may leave."""
IDLE_POINTS = 11
"""Of a run that finds its job finished."""


def every_idiom() -> list[Idiom]:
    """Return all idioms by name."""
    return [idiom for _, idiom in sorted(load().items())]


def outcomes_of(verdict: Verdict) -> list[Outcome]:
    """Return an outcome for each stop; the complaints of the judge are in the last."""
    words = f"{', '.join(verdict.stopped)}: {'; '.join(verdict.complaints)}"
    outcome = OK
    if any(word in words for word in ("missing", "never asked", "ended with")):
        outcome = lost(words)
    elif verdict.complaints:
        outcome = silently_wrong(words)
    some = len(verdict.stopped) or len(verdict.complaints)
    return ([OK] * (some - 1) + [outcome]) if some else []


def crawled(
    folder: Path,
    idiom: Idiom,
    model: Model,
    stops: list[Stop],
    without: str | None = None,
    **options: Any,
) -> Verdict:
    """Crawl with a stop after the other, then to the end; see ``judging.py``."""
    return stopped(idiom, model, stops, without=without, place=folder, **options)


def on_redis(folder: Path, *crawl: Any) -> Verdict:
    """Do so on a Redis, one worker after the other."""
    with RedisServer(folder / "redis") as server:
        return crawled(folder, *crawl, engine=Redis(server))


def tried(
    idiom: Idiom,
    choose: Callable[[list[str]], Iterable[list[Stop]]],
    folder: Path,
    *,
    idle: Stop | None = None,
    without: str | None = None,
) -> list[Outcome]:
    """Crawl an idiom with each of the chosen lists of stops.

    ``choose`` is given the names of all points that an undisturbed crawl passes. A
    crawl in which no stop took place does not count. ``idle`` is a stop of the first
    run that finds the job finished.
    """
    model = undisturbed(idiom)
    points = stopped(idiom, model, []).points
    later = (None,) if idle is None else (idle, None)
    verdicts = [
        crawled(folder, idiom, model, stops, without, later=later)
        for stops in choose(points)
    ]
    return [outcomes_of(verdict)[-1] for verdict in verdicts if verdict.stopped]


class StopPoints(Fault):
    """A few crawls a point. Case 0 is the first idiom, case 1 the next, and so on."""

    number = "F3"
    name = "`kill -9`, Ctrl-C, SIGTERM, an error at every commit, write and sync"
    cases = 4

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        idioms = every_idiom()
        idiom = idioms[seed % len(idioms)]
        rng = random.Random(seed)
        first = seed // len(idioms) % STRIDE

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
        return tried(idiom, choose, folder, idle=idle)

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
            return partial(tried, plain, lambda _: stops, without=without)

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
    cases = 12
    needs = "redis-server"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        """Kill each worker before an answer, or at a step of a commit."""
        idioms = [idiom for idiom in every_idiom() if idiom.may_be_shared]
        idiom, rng = idioms[seed % len(idioms)], random.Random(seed)
        model = expected(idiom)
        requests = model.visits.total()
        stops = [
            rng.choice([
                Stop(request=rng.randint(1, requests)),
                Stop(point=rng.choice(AROUND), nth=rng.randint(1, PASSED)),
            ])
            for _ in range(KILLS if requests else 0)  # else no site can kill a worker
        ]  # fmt: skip
        return outcomes_of(on_redis(folder, idiom, model, stops))

    def control(self, folder: Path) -> list[Outcome]:
        """Only the worker that has logged in is logged in."""
        login, stops = load()["login"], [Stop(point="here logged in")] * KILLS
        verdict = on_redis(folder, login, expected(login), stops, "keeping_cookies")
        return outcomes_of(verdict)
