"""F22: real crawls that several workers share, disturbed again and again."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, ClassVar

sys.path.append(str(Path(__file__).parents[1]))  # beside pytest, too

from disturbed_crawl import CaughtError, DisturbedCrawl, EverydayPages
from redis_places import JOB, OneCluster, OneRedis
from shared_judge import doubled, judge
from support.crawl import Crawl
from support.engines import Redis
from support.site import Site
from trial import OK, Fault, Outcome, crashed, until_caught

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis_places import Place

SIZE = 180
"""Pages with a number; some lead to pages without a number."""
FAR = 3
"""Links of a page besides its two children."""
DELAY = 0.004
"""Seconds that an answer takes."""


class SharedCrawls(Fault):
    """A crawl of real workers, disturbed again and again, that runs to its end."""

    number = "F22"
    name = "real workers on Redis killed, stopped, interrupted; Redis killed"
    trials = 12
    faults: ClassVar[int] = 15
    """Of a case; some do not take place."""
    settings: ClassVar[dict[str, int]] = {}
    """Of the workers."""
    kinds: ClassVar[tuple[str, ...]] = (
        *("kill", "kill", "stop", "stop", "interrupt", "interrupt twice"),
        *("part", "collect", "restart", "promote", "stall", "full", "cut off"),
        "without replicas",
    )

    def place(self, folder: Path) -> Place:
        return OneRedis(folder)

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def quick(self, folder: Path, seed: int) -> list[Outcome]:
        return self._crawl(folder, seed, faults=5)

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return self._crawl(folder, seed, faults=self.faults)

    def control(self, folder: Path, seed: int) -> list[Outcome]:
        """Without fencing; and settled before the links are offered."""
        return until_caught(
            folder,
            self._without("fence", seed, "stop", "part"),
            self._without("order", seed, "kill"),
        )

    def _without(
        self, name: str, seed: int, *kinds: str
    ) -> Callable[[Path, int], list[Outcome]]:
        """Return a control in which something is taken out."""
        return lambda place, number: self._crawl(place, seed + number, 6, kinds, name)

    def _crawl(
        self,
        folder: Path,
        seed: int,
        faults: int,
        kinds: tuple[str, ...] | None = None,
        without: str = "",
    ) -> list[Outcome]:
        # In a control, one link leads to each page: if it is lost, so is the page.
        pages = EverydayPages(seed, SIZE, far=0 if without else FAR)
        with (
            Site(pages, delay=DELAY) as site,
            self.place(folder) as place,
            Crawl(folder, site, Redis(place, JOB), **self.settings) as crawl,
        ):
            disturbed = DisturbedCrawl(crawl, place, Random(seed), without, doubled)
            try:
                disturbed.run(faults, kinds or self.kinds)
                outcome = judge(disturbed)
            except CaughtError as error:
                outcome = error.outcome
            except AssertionError as error:
                outcome = crashed(f"hangs: {error}")
        (folder / "faults").write_text(f"{dict(disturbed.happened)}\n")
        # One verdict for all, and all that went before were faults of the same crawl.
        return [OK] * (disturbed.happened.total() - 1) + [outcome]


class ReturnedCrawls(SharedCrawls):
    """The same on a Redis that goes back by a moment."""

    number = "F23"
    name = "real workers on a Redis that goes back; workers killed, stopped"
    trials = 6
    faults = 8
    kinds = ("back", "back", "back", "kill", "stop")

    def control(self, folder: Path, seed: int) -> list[Outcome]:
        """Nothing is offered again."""
        return until_caught(folder, self._without("memory", seed, "back"))


class ClusterCrawls(SharedCrawls):
    """The same on a Redis Cluster of three, of which one is killed at a time."""

    name = "real workers on a Redis Cluster killed, stopped; a node killed"
    trials = 6
    faults = 8
    kinds = ("kill", "stop", "collect", "restart", "restart", "cut off", "stall")

    def place(self, folder: Path) -> Place:
        return OneCluster(folder)

    def control(self, folder: Path, seed: int) -> list[Outcome]:
        """Without fencing; the faults of :class:`SharedCrawls` need no Cluster."""
        return until_caught(folder, self._without("fence", seed, "stop"))


class ReplicatedCrawls(ClusterCrawls):
    """The same, and each node has a replica, which takes its place."""

    number = "F23"
    name = "real workers on a Cluster with replicas, which are promoted"
    kinds = ("promote", "kill", "promote", "stop", "stall", "promote", "cut off")
    settings: ClassVar[dict[str, int]] = {"BLOOMDUPE_REDIS_REPLICAS": 1}

    def place(self, folder: Path) -> Place:
        return OneCluster(folder, replicas=True)
