"""F21: workers on one frontier in Redis: killed, stopped for too long; Redis, too."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # beside pytest, too

from collections.abc import Callable

from child import in_child
from redis_places import JOB, OneRedis
from shared_worker import PARTITIONS, SharedWorker, fork_shared_worker
from spiders import taken_out
from trial import (
    CONTROL_SEED,
    OK,
    Fault,
    Outcome,
    crashed,
    each_caught,
    lost,
    silently_wrong,
)
from world import World

from bloomdupe.redis.shared_frontier import SharedFrontier

SIZE, FEW = 8_000, 200
WORKERS = 4
LEASE = 0.5
"""Seconds."""
LONG = 3_600.0
"""Seconds; no lease of this length runs out in a control."""
LONGEST = 0.2
"""Seconds until the next fault, at most."""
DEADLINE = 900
"""Seconds; only a process that hangs gets there."""
KINDS = ("kill", "kill", "stop", "stop", "restart", "promote", "back")


class SharedKills(Fault):
    """A crawl of several workers, disturbed again and again, that runs to its end."""

    number = "F21"
    name = (
        "workers on Redis killed, or stopped longer than their leases; Redis killed, or"
        " back at older data"
    )
    trials = 15

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _crawl(folder, seed, faults=15)

    def control(self, folder: Path) -> list[Outcome]:
        """Settled before its links are offered; nothing offered again; no fencing."""

        def played(
            script: Callable[[Pair], None], take_out: Callable[[], None] | None = None
        ) -> Callable[[Path], list[Outcome]]:
            return lambda place: [in_child(partial(_played, script, place, take_out))]

        return each_caught(
            folder,
            played(settled_first),
            played(gone_back, taken_out.offers),
            played(robbed, taken_out.settling),
        )


class Pair:
    """A worker and the worker that goes on, in this process."""

    def __init__(self, redis: OneRedis, world: World, folder: Path) -> None:
        self.redis = redis
        self.first, self.second = (
            SharedWorker(redis.url(JOB), world, log.open("a", 1).write, LONG)
            for log in (folder / "worker1.log", folder / "worker2.log")
        )
        self.first.open()
        self.first.work()

    def rob(self) -> None:
        """Let the second worker take the requests over that the first worker has."""
        self.redis.server.end_leases(JOB)
        self.second.run()


def settled_first(pair: Pair) -> None:
    """A worker dies when it has settled requests, and not yet offered their links."""
    pair.first.settle(pair.first.lease())
    pair.rob()


def gone_back(pair: Pair) -> None:
    """Redis goes back to the moment before some links were offered."""
    leases, server = pair.first.lease(), pair.redis.server
    written = server.written
    pair.first.offer_links(leases)
    server.kill()
    server.cut_back(*written)
    server.start()
    pair.first.settle(leases)
    pair.rob()


def robbed(pair: Pair) -> None:
    """A worker settles a request that another worker has done since."""
    leases = pair.first.lease()
    pair.rob()
    pair.first.offer_links(leases)
    pair.first.settle(leases)


def _played(
    script: Callable[[Pair], None], folder: Path, take_out: Callable[[], None] | None
) -> Outcome:
    world = World(CONTROL_SEED, FEW)
    if take_out is not None:
        take_out()
    with OneRedis(folder) as redis:
        script(Pair(redis, world, folder))
        return judge(world, redis.url(JOB), Crew(lambda _: 0, folder))


class Crew:
    """The workers, and the logs of all that there ever were."""

    def __init__(self, start: Callable[[Path], int], folder: Path) -> None:
        self._start = start
        self._folder = folder
        self._count = 0
        self.pids: list[int] = []
        self.failed = 0

    def hire(self) -> None:
        self._count += 1
        self.pids.append(self._start(self._folder / f"worker{self._count}.log"))

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.pids.remove(pid)

    def look(self) -> bool:
        """Record the workers that have ended; return whether any still work."""
        for pid in [*self.pids]:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.pids.remove(pid)
                self.failed += status != 0
        return bool(self.pids)

    def kill_all(self) -> None:
        for pid in [*self.pids]:
            self.kill(pid)

    def begun(self) -> set[int]:
        """Return the requests that were begun."""
        logs = self._folder.glob("worker*.log")
        return {int(line) for log in logs for line in log.read_text().splitlines()}


def _crawl(
    folder: Path,
    seed: int,
    faults: int,
    *,
    size: int = SIZE,
    kinds: tuple[str, ...] = KINDS,
) -> list[Outcome]:
    rng = random.Random(seed)
    world = World(seed, size)
    with OneRedis(folder) as redis:
        url = redis.url(JOB)
        crew = Crew(lambda log: fork_shared_worker(url, world, log, LEASE), folder)
        try:
            for _ in range(WORKERS):
                crew.hire()
            time.sleep(LEASE)  # until there is something to disturb
            happened = 0
            for _ in range(faults):
                time.sleep(rng.uniform(0, LONGEST))
                if not crew.look():
                    break
                _disturb(crew, redis, rng, rng.choice(kinds))
                happened += 1
            end = time.monotonic() + DEADLINE
            while crew.look():
                if time.monotonic() > end:
                    return [crashed(f"{len(crew.pids)} workers do not end")]
                time.sleep(0.01)
        finally:
            crew.kill_all()
        outcome = judge(world, url, crew)
    return [OK] * (happened - 1) + [outcome]


def _disturb(crew: Crew, redis: OneRedis, rng: random.Random, what: str) -> None:
    victim = rng.choice(crew.pids)
    if what == "kill":
        crew.kill(victim)
        crew.hire()
    elif what == "stop":
        os.kill(victim, signal.SIGSTOP)
        time.sleep(rng.uniform(0, 2 * LEASE))
        os.kill(victim, signal.SIGCONT)
    else:
        redis.disturb(what, rng.uniform(0, LEASE))


def judge(world: World, url: str, crew: Crew) -> Outcome:
    """Compare the output with the graph, and with the requests that were begun."""
    if crew.failed:
        return crashed(f"{crew.failed} workers ended with an error")
    with SharedFrontier.open(url, partitions=PARTITIONS) as frontier:
        if not frontier.finished:
            return lost("something waits, though all workers have ended")
        found = Counter(output.line.decode() for output in frontier.outputs())
    begun = crew.begun()
    if missing := set(range(world.size)) - begun:
        return lost(f"never begun: {sorted(missing)[:9]}")
    expected = Counter(
        world.line(item) for number in range(world.size) for item in world.items(number)
    )
    if gone := expected - found:
        return lost(f"{gone.total()} items: {min(gone)[:60]}")
    if surplus := found - expected:
        return silently_wrong(f"{surplus.total()} items too many: {min(surplus)[:60]}")
    return OK
