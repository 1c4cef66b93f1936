"""The process under test: a worker on a frontier that workers share on Redis.

It crawls a :class:`world.World` until nothing is pending or in progress. It reports to
a file of its own the number of each request that it begins to work on.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from bloomdupe.errors import StoreUnreachableError
from bloomdupe.redis.partition import Offer, RedisLease
from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from world import World

    T = TypeVar("T")

PARTITIONS = 8
AT_ONCE = 12
"""Requests that a worker works on."""


class SharedWorker:
    """Works until all is done."""

    def __init__(
        self,
        url: str,
        world: World,
        report: Callable[[str], object],
        lease_seconds: float,
    ) -> None:
        self.url = url
        self.world = world
        self.report = report
        self.lease_seconds = lease_seconds
        self.tended = float("-inf")

    def run(self) -> None:
        self.open()
        while self.work() or not self.patiently(lambda: self.frontier.finished):
            pass
        self.patiently(self.frontier.close)

    def open(self) -> None:
        self.frontier = self.patiently(
            lambda: SharedFrontier.open(
                self.url,
                self.world.size,
                1e-9,
                partitions=PARTITIONS,
                lease_seconds=self.lease_seconds,
            )
        )
        self.patiently(lambda: self.frontier.offer([self.offer(0)]))

    def patiently(self, call: Callable[[], T]) -> T:
        """Call until the server answers."""
        while True:
            try:
                return call()
            except StoreUnreachableError:
                time.sleep(0.01)

    def tend(self) -> None:
        now = time.monotonic()
        if now - self.tended > self.lease_seconds / 4:
            self.patiently(self.frontier.tend)
            self.tended = now

    def work(self) -> bool:
        """Do some requests; False if there is no request for this worker now."""
        leases = self.lease()
        self.offer_links(leases)
        self.settle(leases)
        for lease in leases:
            self.frontier.ask_again(lease.slot)
        return bool(leases)

    def lease(self) -> list[RedisLease]:
        self.tend()
        leases = self.patiently(lambda: self.frontier.lease(AT_ONCE, 3))
        for lease in leases:
            self.report(f"{self.number_of(lease)}\n")
        return leases

    def offer_links(self, leases: list[RedisLease]) -> None:
        for lease in leases:
            links = self.world.links(self.number_of(lease))
            offers = [self.offer(link, lease) for link in links]
            self.patiently(partial(self.frontier.offer, offers))

    def settle(self, leases: list[RedisLease]) -> None:
        done = [(lease, self.lines(self.number_of(lease))) for lease in leases]
        self.patiently(lambda: self.frontier.settle(done))

    def number_of(self, lease: RedisLease) -> int:
        number = int(lease.payload.partition(b" ")[0])
        assert lease.payload == self.world.payload(number)
        assert lease.slot == self.world.slot(number)
        assert lease.priority == self.world.priority(number)
        return number

    def offer(self, number: int, of: RedisLease | None = None) -> Offer:
        world = self.world
        return Offer(
            world.slot(number),
            world.fingerprint(number),
            world.payload(number),
            world.priority(number),
            of=of,
        )

    def lines(self, number: int) -> list[bytes]:
        return [self.world.line(item).encode() for item in self.world.items(number)]


def fork_shared_worker(url: str, world: World, log: Path, lease_seconds: float) -> int:
    """Start one in a child; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with log.open("a", buffering=1) as file:
            SharedWorker(url, world, file.write, lease_seconds).run()
        status = 0
    except BaseException:  # noqa: BLE001 - a forked child must not go on as its parent
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)
