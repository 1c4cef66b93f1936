"""F22: real crawls that several workers share, disturbed again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from disturbed_crawl import DisturbedCrawl
from programs import Program, answer_to
from redis_places import JOB, OneRedis
from shared_controls import ControlledCrawl
from shared_judge import judge
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
        *("add", "add", "part", "collect", "restart", "promote", "stall", "full"),
        *("cut off", "without replicas"),
    )

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        def script(crawl: DisturbedCrawl) -> None:
            crawl.run(self.faults, self.kinds)

        program = shared_program(seed, SIZE, FAR)
        return _crawled(folder, program, seed, DisturbedCrawl, script)

    def control(self, folder: Path) -> list[Outcome]:
        """Without fencing."""
        return _controlled(folder, ControlledCrawl.fence)


class ReturnedCrawls(SharedCrawls):
    """The same on a Redis that goes back by a moment."""

    number = "F23"
    name = "real workers on a Redis that goes back; workers killed, stopped"
    faults = 8
    kinds = ("back", "back", "back", "kill", "stop")

    def control(self, folder: Path) -> list[Outcome]:
        """Without steps, nobody notices that it has gone back."""
        return _controlled(folder, ControlledCrawl.memory)


def _controlled(
    folder: Path, script: Callable[[ControlledCrawl], None]
) -> list[Outcome]:
    # One link leads to each page: if it is lost, so is the page.
    program = shared_program(0, FEW, across=0)
    return _crawled(folder, program, 0, ControlledCrawl, script)


def _crawled(
    folder: Path,
    program: Program,
    seed: int,
    kind: type[DisturbedCrawl],
    script: Callable[[Any], None],
) -> list[Outcome]:
    """Crawl as a script does, and judge.

    There is one verdict for all faults, and all that went before it were of one crawl.
    """
    with (
        Site(partial(answer_to, program), delay=DELAY) as site,
        OneRedis(folder) as place,
        Crawl(folder, site, Redis(place, JOB)) as crawl,
    ):
        disturbed = kind(crawl, place, program, Random(seed))
        try:
            script(disturbed)
            outcome = judge(disturbed)
        except AssertionError as error:
            outcome = crashed(f"hangs, or goes wrong: {error}")
    (folder / "faults").write_text(f"{dict(disturbed.happened)}\n")
    return [OK] * (disturbed.happened.total() - 1) + [outcome]
