"""DisturbedCrawl: a crawl of real workers, and all that happens to it."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from programs import Program
from redis_places import JOB, OneRedis
from shared_program import ADDED, DAY, SETTINGS, for_stock
from spiders.generated import Generated
from support.crawl import Before, Crawl, Process, Run
from support.engines import Redis
from support.site import Visit
from support.waiting import until

WORKERS = 4
LEASE = 12
"""Seconds, for which no busy machine holds a worker up. A lease runs out when a fault
says so, or when its worker has ended.
"""
AWAY = 1.2
"""Seconds for which Redis is away, at most."""
STEP = 16
"""Requests from one fault to the next, about."""
PAUSE = 0.3
"""Seconds, in which a crawl that waits for a lease gets no further."""
FLUSH = 0.05
"""Seconds between two times Ctrl-C."""
DEADLINE = 900
"""Seconds; only a process that hangs gets there."""
ENDED = "waiting"
"""The reason of workers that have found nothing to do before tomorrow."""
AT_ONCE = 6
"""URLs that are added at once."""
BADLY = "ValueError: as the program says"
"""The error that the spider itself raises."""


class Worker:
    """A worker, or the process that collects, and the faults that it has had."""

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.name = name
        self.stopped_by = ""
        """The fault that ended it, if it is not to end by itself."""
        self.ended = 0.0
        """Unix time from which on no request of its is sent; 0 while it lives."""

    @property
    def joined(self) -> bool:
        """Whether it works, or has worked."""
        return not self.process.alive or "This is worker" in self.process.log

    @property
    def owner(self) -> str:
        """The name that Redis knows it by; nothing before it has joined."""
        found = re.findall(r"This is (?:now )?worker (\S+)", self.process.log)
        return found[-1] if found else ""

    def kill(self) -> None:
        self.stopped_by = "kill"
        self.process.kill()

    def complaint(self) -> str:
        """Say what is wrong with how it has ended; nothing if nothing is."""
        run = self.process.wait()
        if self.stopped_by in {"kill", "interrupt twice"}:
            return ""
        reasons = {ENDED} | ({"shutdown", None} if self.stopped_by else set())
        # Scrapy that is about to begin ends without a word.
        if run.status or run.finish_reason not in reasons:
            return f"{self.name} ended with {run.status} ({run.finish_reason})"
        if run.log.count("Traceback") > run.log.count(BADLY) or "CRITICAL" in run.log:
            return f"{self.name} has a traceback in its log"
        return ""


class DisturbedCrawl:
    """A crawl of workers that come and go, until all is done."""

    adds = ADDED
    """URLs that are added until the end."""
    stock: Run
    """The crawl of stock Scrapy."""
    asked: int
    """Requests for the site until the crawl had ended."""
    next_day: int
    """Requests until the next day had begun."""

    def __init__(
        self, crawl: Crawl, place: OneRedis, program: Program, rng: Random
    ) -> None:
        self.crawl = crawl
        self.site = crawl.site
        assert isinstance(crawl.engine, Redis)
        self.stored = crawl.engine
        self._place = place
        self._rng = rng
        self._before: Before | None = None
        self._program = program
        self.revisited: list[str] = program["revisited"]
        """The paths of pages that are revisited."""
        crawl.settings |= {
            **SETTINGS,
            "PROGRAM": json.dumps(program),
            "BLOOMDUPE_EXPECTED_URLS": 10_000,
            "BLOOMDUPE_REDIS_LEASE": LEASE,
        }
        self.workers: list[Worker] = []
        """All that there ever were."""
        self.collectors: list[Worker] = []
        self.happened = Counter[str]()
        """Faults that took place."""
        self._added = 0
        """URLs that were added."""
        self._faults: dict[str, Callable[[Worker], None]] = {
            "add": self._add,
            "collect": lambda _: self._collect("--follow"),
            "interrupt": partial(self._interrupt, times=1),
            "interrupt twice": partial(self._interrupt, times=2),
            "kill": Worker.kill,
            "part": self._part,
            "stop": self._stop,
        }

    def run(self, faults: int, kinds: tuple[str, ...]) -> None:
        """Let stock Scrapy do it, and then disturb the workers until all is done."""
        rng = self._rng
        self.begin()
        for _ in range(faults):
            if not self._hire(rng.randint(2, WORKERS)):
                break
            self._go_on()
            what = rng.choice(kinds)
            if self.at_work:
                self._disturb(what)
        self.finish()

    def begin(self, before: Before | None = None) -> None:
        """Let stock Scrapy do it; all workers call ``before`` first."""
        self._before = before
        program = json.dumps(for_stock(self._program, self.adds))
        self.stock = self.crawl.run(Generated, ADDONS=None, PROGRAM=program)
        self._allow(0)

    def finish(self) -> None:
        """Let the crawl come to its end, and look whether it is one."""
        self.site.release()
        if self.adds:
            self._take(self._start_adding(self.adds))
            self._hire_one()
        self._hire(1)
        self._until(lambda: not self.alive)
        self._collect()
        self.collectors[-1].process.wait()
        self.asked = len(self.site.log)
        self._work_once()
        self.next_day = len(self.site.log)
        self._before = self.crawl.engine.pass_time(DAY)
        self._work_once()
        self._count_ends()

    def _work_once(self) -> None:
        """Let one more worker come, and leave when it has nothing to do."""
        self._hire_one()
        self._until(lambda: not self.alive)

    @property
    def visits(self) -> list[Visit]:
        """The requests of the workers, until the crawl had ended."""
        return self.site.log[len(self.stock.visits) : self.asked]

    @property
    def alive(self) -> list[Worker]:
        """Workers that have not ended, those that are about to included."""
        return [worker for worker in self.workers if worker.process.alive]

    @property
    def at_work(self) -> list[Worker]:
        """Workers to which nothing was done that ends them."""
        return [worker for worker in self.alive if not worker.stopped_by]

    def _hire(self, count: int) -> bool:
        """Have so many workers at least; False if the crawl has ended."""
        ended = (w.process.wait() for w in self.workers if not w.process.alive)
        if any(run.status == 0 and run.finish_reason == ENDED for run in ended):
            return bool(self.at_work)
        for _ in range(count - len(self.at_work)):
            self._hire_one()
        return True

    def _hire_one(self) -> Worker:
        name = f"worker{len(self.workers)}"
        process = self.crawl.start(
            Generated,
            before=self._before,
            BLOOMDUPE_REDIS_URL=self._place.url(JOB, name),
            USER_AGENT=name,
        )
        self.workers.append(Worker(process, name))
        return self.workers[-1]

    def _go_on(self) -> None:
        """Let the crawl go on for a while."""
        begun = time.monotonic()
        self._allow(self._rng.randrange(2, 2 * STEP))

        def far_enough() -> bool:
            if not self.at_work or self.site.shut:
                return True
            late = time.monotonic() > begun + PAUSE
            return late and any(worker.joined for worker in self.at_work)

        self._until(far_enough)
        time.sleep(self._rng.choice([0, 0, 0.02, 0.1]))  # noqa: TID251 - a fault strikes at any time

    def _allow(self, more: int) -> None:
        """Let the site give the answers that wait, and so many more."""
        self.site.hold_after(self.site.waiting + more)

    # Faults

    def _disturb(self, what: str) -> None:
        victim = self._rng.choice(self.at_work)
        # In some, the site answers meanwhile; else requests stay in flight.
        self._allow(self._rng.choice([0, STEP, 3 * STEP]))
        if what in self._faults:
            self._faults[what](victim)
            return
        self._wait_for(self.at_work)
        self._place.disturb(what, self._rng.uniform(0, AWAY), self._rng)
        if self._rng.random() < 0.5:  # it was away for longer than a lease
            self._end_leases(self.at_work)
        self.happened[what] += bool(self.at_work)

    def _wait_for(self, workers: list[Worker]) -> None:
        """Wait until they have joined: a worker is refused while Redis is away."""
        self._until(lambda: all(worker.joined for worker in workers))

    # Leases

    def _until(self, condition: Callable[[], object]) -> None:
        """Wait; meanwhile the leases of workers that have ended run out."""

        def holds() -> object:
            dead = [worker for worker in self.workers if not worker.process.alive]
            for worker in dead:
                worker.ended = worker.ended or time.time()
            self._end_leases(dead)
            return condition()

        until(holds, DEADLINE)

    def _end_leases(self, workers: Iterable[Worker]) -> int:
        """Let the leases of workers run out; return how many partitions they own."""
        owners = [worker.owner for worker in workers if worker.owner]
        return self._place.server.end_leases(JOB, *owners) if owners else 0

    def _rob(self, victims: set[Worker]) -> None:
        """Let other workers, if there are any, own the partitions of the victims."""

        def robbed() -> bool:
            others = (w for w in self.at_work if w not in victims and w.joined)
            return not any(others) or not self._end_leases(victims)

        self._until(robbed)

    def _add(self, victim: Worker) -> None:
        """Kill a worker while URLs are added, those that were added before, too."""
        self._wait_for([victim])
        self._added = min(self.adds, self._added + AT_ONCE)
        adding = self._start_adding(self._added)
        victim.kill()
        self._take(adding)

    def _take(self, adding: Process) -> None:
        run = adding.wait()
        assert run.status == 0, run.log

    def _start_adding(self, count: int) -> Process:
        self.crawl.make_project()
        urls = [f"{self.site.base}/added{number}" for number in range(count)]
        job = self.crawl.engine.job
        return self.crawl.start_bloomdupe("add", job, "--callback", "parse", *urls)

    def _interrupt(self, victim: Worker, times: int) -> None:
        """Press Ctrl-C, once or twice; it ends while the other workers go on."""
        self._wait_for([victim])
        victim.stopped_by = "interrupt" if times == 1 else "interrupt twice"
        for _ in range(times):
            victim.process.send(signal.SIGINT)
            time.sleep(FLUSH)  # noqa: TID251 - a fault strikes at any time

    def _part(self, victim: Worker) -> None:
        self._wait_for([victim])
        self._place.part(victim.name, partial(self._rob, {victim}))
        self.happened["part"] += victim in self.at_work

    def _stop(self, victim: Worker) -> None:
        """Stop a worker, or two, and let them go on without their leases."""
        victims = {victim, self._rng.choice(self.at_work)}
        for one in victims:
            one.process.send(signal.SIGSTOP)
        self._rob(victims)
        for one in victims:
            one.process.send(signal.SIGCONT)
        # A process that had ended before cannot be stopped.
        self.happened["stop"] += any(one in self.at_work for one in victims)

    def _collect(self, *options: str) -> None:
        """Kill the process that collects, if there is one, and start the next."""
        self._wait_for(self.at_work)
        if self.collectors:
            self.collectors[-1].kill()
        url = self.crawl.engine.job
        self.crawl.make_project()  # which has the classes of the items
        process = self.crawl.start_bloomdupe("collect", url, "collected", *options)
        self.collectors.append(Worker(process, "collect"))

    def _count_ends(self) -> None:
        for worker in (*self.workers, *self.collectors):
            run, what = worker.process.wait(), worker.stopped_by
            if what == "kill":
                name = "collect" if worker in self.collectors else "kill"
                self.happened[name] += run.status == -signal.SIGKILL
            elif what:
                said = "Received SIGINT" in run.log and run.finish_reason != ENDED
                self.happened[what] += said
