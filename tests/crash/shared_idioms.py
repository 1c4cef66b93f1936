"""F24: everyday spiders as workers of a shared crawl, killed and replaced.

The spiders are those of ``tests/idioms``, and stock Scrapy shows which items to get. A
worker is killed before the answer to a request, or at a step of a commit; the next one
goes on when its lease has ended. Two are killed, and the third runs to the end.
"""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # beside pytest, too

from collections import Counter
from pathlib import Path as Folder

from crawls import INTERVAL, IdiomCrawl, Stop, finished
from judging import expected_items, traceback_in
from stock import of_scrapy
from stop_points import every_idiom
from support.crawl import Run
from support.judge import SHOWN, differences
from support.redis_server import RedisServer
from support.stored_crawl import StoredCrawl
from table import Idiom, load
from trial import CONTROL_SEED, OK, Fault, Outcome, crashed, lost, silently_wrong

KILLS = 2
POINTS, PASSED = ("before ", "after "), 60
"""Points around each step of a commit, and how many of them a kill may leave."""
LEASE = 600
"""Seconds; the leases of a worker end when the next one begins."""


class SharedIdioms(Fault):
    """Case 0 is the first idiom, case 1 the next one, and so on."""

    number = "F24"
    name = "`kill -9` of workers on Redis that crawl as everyday spiders do"
    trials = 20
    cases = 12

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def run(self, folder: Folder, seed: int) -> list[Outcome]:
        idioms = [idiom for idiom in every_idiom() if can_be_shared(idiom)]
        with RedisServer(folder / "redis") as server:
            return crawled(folder, idioms[seed % len(idioms)], seed, server)

    def control(self, folder: Folder) -> list[Outcome]:
        """Only the worker that has logged in is logged in."""
        stop = Stop(point="here logged in")
        login = load()["login"]
        with RedisServer(folder / "redis") as server:
            return crawled(
                folder,
                login,
                CONTROL_SEED,
                server,
                stop=stop,
                without="keeping_cookies",
            )


def can_be_shared(idiom: Idiom) -> bool:
    """Whether a crawl on Redis can have this idiom."""
    return not idiom.script


class SharedCrawl(IdiomCrawl):
    """Runs of an idiom's command on a Redis; the options are the same."""

    def __init__(
        self, server: RedisServer, job: str, idiom: Idiom, **options: Any
    ) -> None:
        self._server = server
        self._job = job
        self.url = server.url(job)
        super().__init__(idiom, **options)

    def run_command(self, stop: Stop | None = None, *, trace: bool = False) -> Run:
        """Run it once, as the worker that gets all partitions."""
        self._server.end_leases(self._job)
        return super().run_command(stop, trace=trace)

    def project(self, *, stock: bool) -> dict[str, Any]:  # noqa: ARG002 - never
        settings = super().project(stock=True)
        return settings | {
            "ADDONS": {"bloomdupe.Addon": 500},
            "BLOOMDUPE_CHECKPOINT_INTERVAL": INTERVAL,
            "BLOOMDUPE_REDIS_URL": self.url,
            "BLOOMDUPE_REDIS_LEASE": LEASE,
        }

    @property
    def all_done(self) -> bool:
        """Whether nothing is pending or in progress."""
        return StoredCrawl(self.url).look.finished

    def written(self) -> str:
        """Write the feeds into the folder; return what is wrong with that."""
        try:
            words = self.idiom.arguments
            named = ["--feed" if word in ("-o", "-O") else word for word in words]
            options = named if "--feed" in named else []
            self.bloomdupe("collect", self.url, ".", *options)
        except AssertionError as error:
            return f"collect failed: {error}"
        return ""


def crawled(
    folder: Folder,
    idiom: Idiom,
    seed: int,
    server: RedisServer,
    kills: int = KILLS,
    stop: Stop | None = None,
    without: str | None = None,
) -> list[Outcome]:
    """Kill so many workers, and judge the crawl when the last one has finished.

    They are killed at random requests and points, or each at a certain ``stop``;
    ``without`` names a protection that is taken out.
    """
    rng = random.Random(seed)
    items, visits = expected_items(idiom), visits_of_scrapy(idiom)
    with SharedCrawl(server, idiom.name, idiom, place=folder, without=without) as crawl:
        killed = 0
        # Without requests, the site cannot kill a worker.
        for _ in range(kills if visits else 0):
            at_random = rng.choice([
                Stop(request=rng.randint(1, visits.total())),
                Stop(point=rng.choice(POINTS), nth=rng.randint(1, PASSED)),
            ])  # fmt: skip
            run = crawl.run_command(stop or at_random)
            killed += run.stopped is not None
        while not finished(run := crawl.run_command()):
            if run.status or run.late:
                words = f"{run.name} ended with {run.status}"
                return [crashed(f"{idiom.name}: {words}")]
        outcome = judged(crawl, items, visits)
        crawl.keep = outcome != OK
    return [OK] * (killed - 1) + [outcome] if killed else []


def visits_of_scrapy(idiom: Idiom) -> Counter[str]:
    """Return the requests of stock Scrapy, which need not finish such an idiom."""
    if idiom.items is None:
        return of_scrapy(idiom).visits
    with IdiomCrawl(idiom, stock=True) as stock:
        stock.run_command()
        return stock.visits


def judged(crawl: SharedCrawl, items: Counter[str], visits: Counter[str]) -> Outcome:
    name, log = crawl.idiom.name, crawl.runs[-1].log
    if not crawl.all_done:
        return lost(f"{name}: something is owed, though the last run has finished")
    if wrong := crawl.written():
        return crashed(f"{name}: {wrong}")
    if gone := visits - crawl.visits:
        return lost(f"{name}: never asked for: {sorted(gone)[:SHOWN]}")
    outputs = crawl.outputs()
    for found in (outputs.jsonl, outputs.csv):
        if items - found:
            return lost(f"{name}: {differences(items, found)}")
        if found != items:
            return silently_wrong(f"{name}: {differences(items, found)}")
    if "Traceback" in log and not crawl.idiom.raises:
        return crashed(f"{name}: {traceback_in(log)}")
    return OK
