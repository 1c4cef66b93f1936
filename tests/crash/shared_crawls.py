"""F22: real crawls that several workers share, disturbed again and again."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import ClassVar

from disturbed_crawl import CaughtError, DisturbedCrawl, EverydayPages, Worker
from redis_places import JOB, OneRedis
from shared_judge import doubled, judge
from support import taken_out
from support.crawl import Crawl
from support.engines import Redis
from support.site import Site
from trial import OK, Fault, Outcome, crashed

SIZE, FEW = 180, 27
"""Pages with a number, and those of a control; some lead to pages without a number."""
FAR = 3
"""Links of a page besides its two children."""
BEGUN = 12
"""Answers until a control has something to lose."""
DELAY = 0.004
"""Seconds that an answer takes."""


class SharedCrawls(Fault):
    """A crawl of real workers, disturbed again and again, that runs to its end."""

    number = "F22"
    name = "real workers on Redis killed, stopped, interrupted; Redis killed"
    faults: ClassVar[int] = 15
    """Of a case; some do not take place."""
    kinds: ClassVar[tuple[str, ...]] = (
        *("kill", "kill", "stop", "stop", "interrupt", "interrupt twice"),
        *("add", "add", "part", "restart", "promote", "stall", "full", "cut off"),
        "without replicas",
    )

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return self._crawl(folder, seed, faults=self.faults)

    def control(self, folder: Path) -> list[Outcome]:
        """Without fencing."""
        return self._without(folder, overtaken)

    def _without(
        self, folder: Path, script: Callable[[DisturbedCrawl, Worker, OneRedis], None]
    ) -> list[Outcome]:
        """Take the guards out of a worker that has pages in progress.

        A script goes step by step, so that it is caught each time.
        """
        # One link leads to each page: if it is lost, so is the page.
        with self._opened(folder, EverydayPages(0, FEW, far=0)) as (crawl, place):
            controlled = DisturbedCrawl(crawl, place, Random(0), doubled)
            controlled.adds = 0

            def run() -> None:
                controlled.begin(taken_out.fence)
                controlled.allow(BEGUN)
                first = controlled.hire_one()
                controlled.until(lambda: crawl.site.shut and crawl.site.waiting)
                script(controlled, first, place)
                controlled.finish()

            return [self._judged(controlled, run)]

    @contextmanager
    def _opened(
        self, folder: Path, pages: EverydayPages
    ) -> Iterator[tuple[Crawl, OneRedis]]:
        with (
            Site(pages, delay=DELAY) as site,
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
        pages = EverydayPages(seed, SIZE, FAR)
        with self._opened(folder, pages) as (crawl, place):
            disturbed = DisturbedCrawl(crawl, place, Random(seed))
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
        return self._without(folder, gone_back)


def overtaken(crawl: DisturbedCrawl, first: Worker, _: OneRedis) -> None:
    """It goes on when a second one has done its pages."""
    first.process.send(signal.SIGSTOP)
    second = crawl.hire_one()
    crawl.wait_for([second])
    crawl.rob({first})
    crawl.site.release()
    crawl.until(lambda: not second.process.alive)
    first.process.send(signal.SIGCONT)


def gone_back(crawl: DisturbedCrawl, first: Worker, place: OneRedis) -> None:
    """Redis goes back, so that it has forgotten pages that were done."""

    def done() -> int:
        return len(crawl.crawl.engine.items(crawl.crawl.folder))

    written, begun = place.server.written, done()
    crawl.allow(BEGUN)
    crawl.until(lambda: done() > begun + BEGUN // 2)
    first.process.send(signal.SIGSTOP)
    place.server.kill()
    place.server.cut_back(*written)
    place.server.start()
    first.process.send(signal.SIGCONT)
