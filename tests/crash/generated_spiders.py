"""F25: spiders that chance has put together, killed at random points.

A program of ``programs.py`` is crawled by stock Scrapy, then undisturbed with a JOBDIR
or on Redis, then with one to three kills and to its end. Its items and requests must be
those of stock Scrapy.
"""

from __future__ import annotations

import abc
import itertools
import json
import random
import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from crawls import IdiomCrawl, Stop, finished
from judging import Verdict, ended, judge, run_to_end
from programs import (
    FEATURES,
    ON_DISK,
    SETTINGS,
    Program,
    answer_to,
    made,
)
from shared_idioms import SharedCrawl, judged
from spiders.generated import Generated
from stock import Model, ask_scrapy
from stop_points import outcome_of
from support.redis_server import RedisServer
from table import Idiom
from trial import OK, Fault, Outcome, lost

MOST_KILLS = 3
RAISING = {"fails"}
NOT_STORED = {"closure", "lambda"}


WITH_CHILDREN: Program = {
    "pages": {"p0": "ok"},
    "bodies": {
        "start": [["ask", "p0", {}]],
        "p0": [
            ["ask", "x0", {"page": "p0", "by": "kwargs"}],
            ["pause"],
            ["item", "a"],
        ],
        "x0": [["item", "x"]],
    },
    "uses": [],
}
"""A page with a child, which is stored when it is killed after the pause."""


def idiom_of(program: Program) -> Idiom:
    """Return the spider of a program, with its site and its settings."""
    settings: dict[str, Any] = {"RETRY_TIMES": 2}
    pipelines: dict[str, int] = {}
    for use in program["uses"]:
        settings |= SETTINGS[use]
        pipelines |= settings.pop("ITEM_PIPELINES", {})
    text = json.dumps(program)
    asked_by_hand = text.count('"inline"') + 2 * text.count('"files"')
    return Idiom(
        Generated,
        "generated",
        settings={**settings, "ITEM_PIPELINES": pipelines, "PROGRAM": text},
        # A request that cannot be stored comes again with all that led to it.
        repeats=None
        if any(f'"{kind}"' in text for kind in NOT_STORED)
        else 2 * asked_by_hand + ('"close"' in text),
        # Children that are done while their page works come again with it.
        asks=text.count('"by"'),
        raises='"raise"' in text or not RAISING.isdisjoint(program["uses"]),
        pages=partial(answer_to, program),
    )


@dataclass
class Tried:
    """The outcome of a crawl, and the stop points that it has passed."""

    outcome: Outcome
    points: list[str]
    stops: list[str]


class GeneratedSpiders(Fault):
    """Programs on an engine. Case 0 has the first set of features, and so on."""

    number = "F25"
    features: ClassVar[tuple[str, ...]]
    killed: ClassVar[int]
    """Crawls of a program that are killed."""
    without: str | None = None
    """A protection that is taken out, for a control."""

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        program = made(seed, self.features)
        with self.engine(folder):
            outcomes = self.tried(program, folder, seed)
            bad = next((each for each in outcomes if each != OK), None)
            if bad is not None:
                (folder / "program.json").write_text(json.dumps(program))
                words = f"{bad.words}\n  {json.dumps(program)}"
                outcomes[outcomes.index(bad)] = Outcome(bad.verdict, words)
        return outcomes

    def tried(self, program: Program, folder: Path, seed: int) -> list[Outcome]:
        """Crawl undisturbed, and with kills. A crawl without a kill does not count."""
        rng = random.Random(seed)
        idiom = idiom_of(program)
        model = ask_scrapy(idiom)
        first = self.crawl(idiom, model, [], folder)
        if first.outcome != OK:
            return [first.outcome]
        found: list[Outcome] = []
        stops = [stops_of(first.points, model, rng) for _ in range(self.killed)]
        # A slow crawl may not come to the other stops.
        for each in (*stops, [Stop(point="here start")]):
            if len(found) == self.killed:
                break
            tried = self.crawl(idiom, model, each, folder)
            if tried.stops:
                found.append(tried.outcome)
            if tried.outcome != OK:
                return [tried.outcome]
        return found

    def control_of(self, without: str, folder: Path) -> list[Outcome]:
        """Try a page that yields its children again, without a protection."""
        idiom = idiom_of(WITH_CHILDREN)
        self.without = without
        tried = self.crawl(idiom, ask_scrapy(idiom), [Stop(point="here p0 2")], folder)
        self.without = None
        return [tried.outcome]

    def crawl(
        self, idiom: Idiom, model: Model, stops: list[Stop], folder: Path
    ) -> Tried:
        """Crawl with these stops and to the end; without stops, list the points."""
        with self.opened(idiom, model, folder) as crawl:
            if not stops:
                crawl.run_command(trace=True)
            for stop in stops:
                run = crawl.run_command(stop)
                if finished(run) or (run.status and not run.stopped):
                    break
            complaints = run_to_end(crawl)
            complaints += [
                ended(run) for run in crawl.runs if run.status and not run.stopped
            ]
            outcome = self.judged(model, crawl, complaints)
            if outcome != OK:
                crawl.keep = True
                words = (
                    f"{', '.join(map(str, stops)) or 'undisturbed'}: {outcome.words}"
                )
                outcome = Outcome(outcome.verdict, words)
            reached = [run.stopped for run in crawl.runs if run.stopped]
            return Tried(outcome, crawl.runs[0].points, reached)

    @abc.abstractmethod
    def engine(self, folder: Path) -> AbstractContextManager[object]:
        """Return a context in which crawls are possible."""

    @abc.abstractmethod
    def opened(self, idiom: Idiom, model: Model, folder: Path) -> IdiomCrawl:
        """Return a new crawl."""

    @abc.abstractmethod
    def judged(self, model: Model, crawl: Any, complaints: list[str]) -> Outcome:
        """Judge a crawl that has come to its end, with complaints about its runs."""


def stops_of(points: list[str], model: Model, rng: random.Random) -> list[Stop]:
    """Choose where a crawl is killed, and once or twice more while it goes on."""
    stops = []
    for number in range(rng.randint(1, MOST_KILLS)):
        share = 2 if number else 1
        kinds = [
            Stop(number=rng.randint(1, max(1, len(points) // share))),
            Stop(request=rng.randint(1, max(1, model.visits.total() // share))),
        ]
        if steps := [point for point in points if point.startswith("here ")]:
            kinds.append(Stop(point=rng.choice(steps)))
        stops.append(rng.choice(kinds))
    return stops


class OnDisk(GeneratedSpiders):
    """With a JOBDIR."""

    name = "`kill -9` of generated spiders"
    trials = 24
    cases = 20
    killed = 2
    features = tuple(FEATURES)

    def engine(self, folder: Path) -> AbstractContextManager[object]:
        del folder
        return nullcontext()

    def opened(self, idiom: Idiom, model: Model, folder: Path) -> IdiomCrawl:
        del model
        return IdiomCrawl(idiom, without=self.without, place=folder)

    def judged(self, model: Model, crawl: Any, complaints: list[str]) -> Outcome:
        reached = [run.stopped for run in crawl.runs if run.stopped]
        return outcome_of(Verdict(complaints + judge(model, crawl), reached))

    def control(self, folder: Path) -> list[Outcome]:
        """The marks of children are forgotten at a restart."""
        return self.control_of("waiting_for_pages", folder)


class OnRedis(GeneratedSpiders):
    """On a Redis, one worker after the other."""

    name = "`kill -9` of generated spiders on Redis"
    trials = 20
    cases = 20
    killed = 1
    features = tuple(name for name in FEATURES if name not in ON_DISK)

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def engine(self, folder: Path) -> AbstractContextManager[object]:
        self._server = RedisServer(folder / "redis")
        self._crawls = itertools.count()
        return self._server

    def opened(self, idiom: Idiom, model: Model, folder: Path) -> IdiomCrawl:
        del model
        job = f"crawl{next(self._crawls)}"
        options: Any = {"without": self.without, "place": folder}
        return SharedCrawl(self._server, job, idiom, **options)

    def judged(self, model: Model, crawl: Any, complaints: list[str]) -> Outcome:
        if complaints:
            return lost("; ".join(complaints))
        return judged(crawl, model.items, model.visits)

    def control(self, folder: Path) -> list[Outcome]:
        """The marks of children are forgotten at a restart."""
        with self.engine(folder):
            return self.control_of("waiting_for_pages", folder)
