"""F26: workers on Redis that wait for URLs are killed while URLs are added."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

sys.path.append(str(Path(__file__).parents[1]))  # beside pytest, too

from collections.abc import Callable

from spiders.staying import Stays
from support.crawl import FEEDS, Crawl, Process
from support.engines import Redis
from support.redis_server import RedisServer
from support.site import Answer, Site, Visit
from support.waiting import until
from trial import CONTROL_SEED, OK, Fault, Outcome, crashed, lost, silently_wrong

WORKERS = 4
SLOTS = 16
"""Slots among which the URLs are divided, so that each worker has some."""
REPEATED = 20
"""URLs of a portion that were added before."""
DELAY = 0.01
"""Seconds that an answer takes."""
CLOCK = 0.01
"""Seconds: the difference that two clocks may have."""


class FeedServer:
    """A crawl that stays open, with a feeder, and a ``collect`` that follows it."""

    def __init__(
        self, crawl: Crawl, rng: Random, urls: int, kills: int, workers: int
    ) -> None:
        self.crawl = crawl
        self.site = crawl.site
        self.killed: dict[str, float] = {}
        """Names of the workers that were killed, with the time of the kill."""
        self._rng = rng
        self._kills = kills
        self._workers = workers
        self._crew: list[tuple[str, Process]] = []
        self._count = 0
        self._collector: Process | None = None
        self._urls = [f"{self.site.base}/{number}" for number in range(urls)]
        crawl.starts = ()
        crawl.settings |= {
            "BLOOMDUPE_EXPECTED_URLS": 100_000,
            "BLOOMDUPE_STAY": True,
            "FEEDS": FEEDS,
            "LOG_LEVEL": "INFO",
        }

    def run(self, between: Callable[[FeedServer], None] | None = None) -> None:
        """Add all URLs while workers are killed; end when all is done.

        A control does something ``between`` two portions, in the midst of it.
        """
        for _ in range(self._workers):
            self._hire()
        self.crawl.make_project()
        self._collector = self.crawl.start_bloomdupe(
            "collect", self.crawl.engine.job, "out", "--follow"
        )
        size = -(-len(self._urls) // self._kills)
        for number, first in enumerate(range(0, len(self._urls), size)):
            if between is not None and number == self._kills // 2:
                between(self)
            self._add_and_kill(number, first, first + size)
        until(self._is_done, deadline=1_800)
        self._stop()
        status = self._collector.wait().status
        assert status == 0, self._collector.log

    def _hire(self) -> None:
        """Start a worker, and wait until it has joined."""
        name = f"worker {self._count}"
        self._count += 1
        worker = self.crawl.start(Stays, USER_AGENT=name)
        self._crew.append((name, worker))
        worker.until_logged("This is worker")

    def _add_and_kill(self, number: int, first: int, end: int) -> None:
        """Add a portion, and kill a worker meanwhile; another worker comes."""
        rng, site = self._rng, self.site
        new = self._urls[first:end]
        old = rng.sample(self._urls[:first], min(first, REPEATED))
        held = rng.random() < 0.5
        answers = rng.randrange(1, len(new))
        begun = len(site.log)
        if held:  # with requests on their way
            site.hold_after(answers)
        adding = self._feed(number, [*old, *new])
        if held:
            until(lambda: site.shut and site.waiting)
        else:  # at any step
            until(lambda: len(site.log) >= begun + answers)
        name, worker = self._crew.pop(rng.randrange(len(self._crew)))
        worker.kill()
        self.killed[name] = time.time()
        site.release()
        self._hire()
        self._take(adding)

    def _feed(self, number: int, urls: list[str]) -> Process:
        """Add URLs by a verb."""
        file = self.crawl.folder / f"urls{number}"
        file.write_text("".join(map(_line_of, urls)))
        job = self.crawl.engine.job
        return self.crawl.start_bloomdupe("add", job, "--from", file.name)

    def _take(self, adding: Process) -> None:
        run = adding.wait()
        assert run.status == 0, run.log

    def _is_done(self) -> bool:
        return self._engine.finished

    @property
    def _server(self) -> RedisServer:
        server = self._engine.server
        assert isinstance(server, RedisServer)
        return server

    @property
    def _engine(self) -> Redis:
        engine = self.crawl.engine
        assert isinstance(engine, Redis)
        return engine

    def _stop(self) -> None:
        self.crawl.bloomdupe("stop", self.crawl.engine.job, "--wait")
        for _, worker in self._crew:
            run = worker.wait()
            assert run.finish_reason == "asked_to_stop", run.log
            assert (run.status, run.log.count("Traceback")) == (0, 0), run.log
        self._crew.clear()

    def add_again(self, urls: int) -> int:
        """Add so many URLs once more; return how many requests come of it."""
        until(self._is_done)
        begun = len(self.site.log)
        if not self._crew:
            self._hire()
        self._take(self._feed(0, self._urls[:urls]))
        until(self._is_done)
        return len(self.site.log) - begun

    def forget(self) -> None:
        """Let Redis forget which URLs it has seen, and add the first of them again."""
        until(self._is_done)
        # What a worker has in memory it would still know.
        for _, worker in self._crew:
            worker.kill()
        self._crew.clear()
        self._server.end_leases("feed")
        self._engine.crawl.forget_what_was_seen()
        self.add_again(REPEATED)

    # The judge

    def judge(self) -> Outcome:
        """Compare the log of the site with the output and with its times."""
        visits = self._visits()
        wanted = {f"/{number}" for number in range(len(self._urls))}
        if never := wanted - visits.keys():
            return lost(f"never asked for: {sorted(never)[:5]}")
        if strange := visits.keys() - wanted:
            return silently_wrong(f"asked for, but not added: {sorted(strange)[:5]}")
        outputs = list(self._engine.crawl.lines())
        done = {_page_of(line): when for _, line, when in outputs}
        collected = (self.crawl.folder / "out" / "items.jsonl").read_text()
        found = Counter(map(_page_of, collected.splitlines()))
        if gone := wanted - found.keys():
            return lost(f"{len(gone)} items: {sorted(gone)[:5]}")
        if len(outputs) != len(wanted) or found.total() != len(wanted):
            return silently_wrong(f"{found.total()} items of {len(wanted)} pages")
        for path, some in visits.items():
            *earlier, last = some
            if self._sent(last) > done[path] + CLOCK:
                return silently_wrong(f"done again: {last}")
            if alive := [one for one in earlier if _agent(one) not in self.killed]:
                return silently_wrong(f"asked for again: {[*alive, last]}")
        if again := self.add_again(len(self._urls)):
            return silently_wrong(f"added again, and asked for again: {again} pages")
        self._stop()
        return OK

    def _visits(self) -> dict[str, list[Visit]]:
        """Return the requests for each page, in the order in which they were sent."""
        found: dict[str, list[Visit]] = {}
        for visit in sorted(self.site.log, key=self._sent):
            found.setdefault(visit.path, []).append(visit)
        return found

    def _sent(self, visit: Visit) -> float:
        """Return the time by which it was sent; the site may have read it later."""
        return min(visit.time, self.killed.get(_agent(visit), visit.time))


def _agent(visit: Visit) -> str:
    return str(visit.headers["User-Agent"])


def _line_of(url: str) -> str:
    """Return a line of a list of URLs, which gives each URL its slot."""
    number = int(url.rpartition("/")[2])
    return json.dumps({"url": url, "slot": f"slot {number % SLOTS}"}) + "\n"


def _page_of(line: str) -> str:
    return f"/{json.loads(line)['page']}"


class FeedServerKills(Fault):
    """A crawl that stays open: its workers are killed while URLs are added."""

    number = "F26"
    name = "`kill -9` of workers on Redis that wait for URLs, while URLs are added"
    trials = 10

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return crawled(folder, seed, 1_000, 10)

    def control(self, folder: Path) -> list[Outcome]:
        """Redis forgets which URLs it has seen, and some are added again."""
        return crawled(folder, CONTROL_SEED, 300, 4, 2, FeedServer.forget)


def crawled(
    folder: Path,
    seed: int,
    urls: int,
    kills: int,
    workers: int = WORKERS,
    between: Callable[[FeedServer], None] | None = None,
) -> list[Outcome]:
    """Run a crawl; return an outcome for each kill."""
    with (
        Site(lambda _: Answer("x"), delay=DELAY) as site,
        RedisServer(folder / "redis") as server,
        Crawl(folder, site, Redis(server, "feed")) as crawl,
    ):
        feed = FeedServer(crawl, Random(seed), urls, kills, workers)
        try:
            feed.run(between)
            outcome = feed.judge()
        except AssertionError as error:
            outcome = crashed(str(error))
    return [OK] * (len(feed.killed) - 1) + [outcome]
