"""F24: everyday spiders as workers of a shared crawl, killed and replaced.

The spiders are those of ``tests/idioms``, as is their judge. A worker is killed before
the answer to a request, or at a step of a commit; the next one goes on when its lease
has ended. Two are killed, and the third runs to the end.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from crawls import Stop
from judging import expected, stopped
from stop_points import every_idiom, outcomes_of
from support.engines import Redis
from support.redis_server import RedisServer
from table import Idiom, load
from trial import CONTROL_SEED, Fault, Outcome

KILLS = 2
POINTS, PASSED = ("before ", "after "), 60
"""Points around each step of a commit, and how many of them a kill may leave."""


class SharedIdioms(Fault):
    """Case 0 is the first idiom, case 1 the next one, and so on."""

    number = "F24"
    name = "`kill -9` of workers on Redis that crawl as everyday spiders do"
    cases = 12

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        idioms = [idiom for idiom in every_idiom() if idiom.may_be_shared]
        return _crawled(folder, idioms[seed % len(idioms)], seed)

    def control(self, folder: Path) -> list[Outcome]:
        """Only the worker that has logged in is logged in."""
        stop = Stop(point="here logged in")
        login = load()["login"]
        return _crawled(folder, login, CONTROL_SEED, stop, "keeping_cookies")


def _crawled(
    folder: Path,
    idiom: Idiom,
    seed: int,
    stop: Stop | None = None,
    without: str | None = None,
) -> list[Outcome]:
    """Kill workers at random, or each at a certain ``stop``, and judge the crawl."""
    rng = random.Random(seed)
    model = expected(idiom)
    requests = model.visits.total()
    stops = [
        rng.choice([
            Stop(request=rng.randint(1, requests)),
            Stop(point=rng.choice(POINTS), nth=rng.randint(1, PASSED)),
        ])
        for _ in range(KILLS if requests else 0)  # else the site cannot kill a worker
    ]  # fmt: skip
    with RedisServer(folder / "redis") as server:
        verdict = stopped(
            idiom,
            model,
            stops if stop is None else [stop] * KILLS,
            engine=Redis(server),
            without=without,
            place=folder,
        )
    return outcomes_of(verdict)
