"""F20: a crawl that is stopped at its very end, and a finished job that is run again.

The crawls are those of ``tests/idioms``, as is their judge. Wherever the end was
stopped, the next runs ask the site for nothing. And when a job is finished, no run
changes a file any more, the store included: to its end, or stopped in the middle.
"""

from __future__ import annotations

import random
from pathlib import Path

from crawls import Crawl, Stop
from judging import RUNS, Verdict, again, judge, run_to_end, undisturbed
from stock import Model
from stop_points import every_idiom, outcome_of
from support.judge import SHOWN
from table import Idiom, load
from trial import CONTROL_SEED, Fault, Outcome

LAST = "before note the end"
"""From here on everything is done; the last commit, and the end of the process."""
AT_THE_END = 3
"""Stops after that, in a case."""
IDLE = 3
"""Stops of runs that find the job finished."""


class Ends(Fault):
    """Case 0 is the first idiom, case 1 the next one, and so on."""

    number = "F20"
    name = "`kill -9` from the last commit to the end, and of a finished job's runs"
    trials = 40
    cases = 6

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        idioms = every_idiom()
        return _Job(folder, idioms[seed % len(idioms)], seed).tried()

    def control(self, folder: Path) -> list[Outcome]:
        """Start requests are asked for again, as Scrapy does."""
        return _Job(folder, load()["plain"], CONTROL_SEED, "remembering_starts").tried()


class _Job:
    """A job of an idiom, of which a protection may be taken out, and its ends."""

    def __init__(
        self, folder: Path, idiom: Idiom, seed: int, without: str | None = None
    ) -> None:
        self._folder = folder
        self._idiom = idiom
        self._rng = random.Random(seed)
        self._without = without

    def tried(self) -> list[Outcome]:
        model = undisturbed(self._idiom)
        verdicts = []
        with self._crawl() as crawl:
            while not crawl.run(trace=True).finished:
                assert len(crawl.runs) < RUNS, crawl.runs[-1].log
            before = len(crawl.runs) - 1
            points = crawl.runs[-1].points
            verdicts += self._idle_runs(crawl)
        # Of two crawlers in a process, one ends while the other still works.
        alone = points.count(LAST) == 1
        end = len(points) - points.index(LAST) if alone else 1
        for number in self._rng.sample(range(1, end), min(AT_THE_END, end - 1)):
            verdicts.append(self._end(model, before, number))
        return [outcome_of(verdict) for verdict in verdicts if verdict.stopped]

    def _crawl(self) -> Crawl:
        return Crawl(self._idiom, without=self._without, place=self._folder)

    def _idle_runs(self, crawl: Crawl) -> list[Verdict]:
        """Stop runs of a finished job; each time, run it to the end after that."""
        points = len(crawl.run(trace=True).points)
        verdicts = []
        for number in self._rng.sample(range(1, points + 1), min(IDLE, points)):
            verdict = Verdict(again(crawl, Stop(number=number), None))
            verdict.stopped += filter(None, [crawl.runs[-2].stopped])
            verdicts.append(verdict)
        crawl.keep = any(verdict.complaints for verdict in verdicts)
        return verdicts

    def _end(self, model: Model, before: int, number: int) -> Verdict:
        """Stop the last run there, after so many runs; then run it again, thrice."""
        with self._crawl() as crawl:
            for _ in range(before):
                crawl.run()
            run = crawl.run(Stop(number=number, since=LAST))
            verdict = Verdict(stopped=[run.stopped] if run.stopped else [])
            verdict.complaints += run_to_end(crawl)
            for later in crawl.runs[run.number + 1 :]:
                asked = {visit.what for visit in later.visits}
                if asked := asked - set(self._idiom.start_asks):
                    some = sorted(asked)[:SHOWN]
                    verdict.complaints.append(f"run {later.number} asks for {some}")
            verdict.complaints += judge(model, crawl) + again(crawl, None, None)
            crawl.keep = bool(verdict.complaints)
            return verdict
