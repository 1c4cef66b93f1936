"""F21: workers on one frontier in Redis: killed, stopped for too long; Redis, too."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parents[1]))  # beside pytest, too

from redis_places import OneRedis
from shared_worker import PARTITIONS, fork_shared_worker
from spiders import taken_out
from trial import OK, Fault, Outcome, crashed, lost, silently_wrong, until_caught
from world import World

from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 8_000
WORKERS = 4
LEASE = 0.5
"""Seconds."""
LONGEST = 0.2
"""Seconds until the next fault, at most."""
DEADLINE = 300
"""Seconds; only a process that hangs gets there."""
KINDS = ("kill", "kill", "stop", "stop", "restart", "promote", "back")


class SharedKills(Fault):
    """A crawl of several workers, disturbed again and again, that runs to its end."""

    number = "F21"
    name = (
        "workers on Redis killed, or stopped longer than their leases; Redis killed, or"
        " back at older data"
    )
    trials = 20

    def missing(self) -> str | None:
        return None if shutil.which("redis-server") else "needs redis-server"

    def quick(self, folder: Path, seed: int) -> list[Outcome]:
        return _crawl(folder, seed, faults=5, size=3_000)

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        return _crawl(folder, seed, faults=15)

    def control(self, folder: Path, seed: int) -> list[Outcome]:
        """Settled before its links are offered; nothing offered again; no fencing."""

        def settled_first(place: Path, number: int) -> list[Outcome]:
            kinds = ("kill",)
            return _crawl(place, seed + number, 15, kinds=kinds, settles_first=True)

        def offered_once(place: Path, number: int) -> list[Outcome]:
            taken_out.offers()
            return _crawl(place, seed + number, 20, kinds=("back",))

        def unfenced(place: Path, number: int) -> list[Outcome]:
            taken_out.settling()
            return _crawl(place, seed + number, 15, kinds=("stop",))

        return until_caught(folder, settled_first, offered_once, unfenced)


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

    def begun(self) -> Counter[int]:
        """Count how often each request was begun."""
        begun = Counter[int]()
        for log in self._folder.glob("worker*.log"):
            for line in log.read_text().splitlines():
                what, _, number = line.partition(" ")
                if what == "s":
                    begun[int(number)] += 1
        return begun


def _crawl(
    folder: Path,
    seed: int,
    faults: int,
    *,
    size: int = SIZE,
    kinds: tuple[str, ...] = KINDS,
    settles_first: bool = False,
) -> list[Outcome]:
    rng = random.Random(seed)
    world = World(seed, size)
    with OneRedis(folder) as redis:
        url = redis.url("crawl")
        crew = Crew(
            lambda log: fork_shared_worker(
                url, world, log, LEASE, settles_first=settles_first
            ),
            folder,
        )
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
    if missing := set(range(world.size)) - set(begun):
        return lost(f"never begun: {sorted(missing)[:9]}")
    expected = Counter(
        world.line(item) for number in range(world.size) for item in world.items(number)
    )
    if gone := expected - found:
        return lost(f"{gone.total()} items: {min(gone)[:60]}")
    if surplus := found - expected:
        return silently_wrong(f"{surplus.total()} items too many: {min(surplus)[:60]}")
    return OK
