"""F22: real crawls that several workers share, disturbed again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import ClassVar

from disturbed_crawl import CaughtError, DisturbedCrawl
from programs import Program, answer_to
from redis_places import JOB, OneRedis
from shared_controls import ControlledCrawl
from shared_judge import doubled, judge
from shared_program import shared_program
from support.crawl import Crawl
from support.engines import Redis
from support.site import Site
from trial import OK, Fault, Outcome, crashed

SIZE, FEW = 180, 27
"""Pages of the tree, and those of a control; some lead to pages of other kinds."""
FAR = 3
"""Links of a page besides those to the pages below it."""
DELAY = 0.004
"""Seconds that an answer takes."""


class SharedCrawls(Fault):
    """A crawl of real workers, disturbed again and again, that runs to its end."""

    number = "F22"
    name = "real workers on Redis killed, stopped, interrupted; Redis killed"
    needs = "redis-server"
    faults: ClassVar[int] = 15
    """Of a case; some do not take place."""
    kinds: ClassVar[tuple[str, ...]] = (
        *("kill", "kill", "stop", "stop", "interrupt", "interrupt twice"),
        *(
            "add",
            "add",
            "part",
            "collect",
            "restart",
            "promote",
            "stall",
            "full",
            "cut off",
        ),
        "without replicas",
    )

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return self._crawl(folder, seed, faults=self.faults)

    def control(self, folder: Path) -> list[Outcome]:
        """Without fencing."""
        return self._without(ControlledCrawl.fence, folder)

    def _without(
        self, script: Callable[[ControlledCrawl], None], folder: Path
    ) -> list[Outcome]:
        """Crawl as a script of a control does, in which something is taken out."""
        # One link leads to each page: if it is lost, so is the page.
        program = shared_program(0, FEW, across=0)
        with self._opened(folder, program) as (crawl, place):
            controlled = ControlledCrawl(crawl, place, program, Random(0), doubled)
            return [self._judged(controlled, partial(script, controlled))]

    @contextmanager
    def _opened(
        self, folder: Path, program: Program
    ) -> Iterator[tuple[Crawl, OneRedis]]:
        with (
            Site(partial(answer_to, program), delay=DELAY) as site,
            OneRedis(folder) as place,
            Crawl(folder, site, Redis(place, JOB)) as crawl,
        ):
            yield crawl, place

    def _judged(self, crawl: DisturbedCrawl, run: Callable[[], None]) -> Outcome:
        try:
            run()
            return judge(crawl)
        except CaughtError as error:
            return error.outcome
        except AssertionError as error:
            return crashed(f"hangs: {error}")

    def _crawl(self, folder: Path, seed: int, faults: int) -> list[Outcome]:
        program = shared_program(seed, SIZE, FAR)
        with self._opened(folder, program) as (crawl, place):
            disturbed = DisturbedCrawl(crawl, place, program, Random(seed))
            run = partial(disturbed.run, faults, self.kinds)
            outcome = self._judged(disturbed, run)
        (folder / "faults").write_text(f"{dict(disturbed.happened)}\n")
        # One verdict for all, and all that went before were faults of the same crawl.
        return [OK] * (disturbed.happened.total() - 1) + [outcome]


class ReturnedCrawls(SharedCrawls):
    """The same on a Redis that goes back by a moment."""

    number = "F23"
    name = "real workers on a Redis that goes back; workers killed, stopped"
    faults = 8
    kinds = ("back", "back", "back", "kill", "stop")

    def control(self, folder: Path) -> list[Outcome]:
        """Without steps, nobody notices that it has gone back."""
        return self._without(ControlledCrawl.memory, folder)
