"""Several workers that own partitions of a crawl on Redis, in one process.

Filter, frontier, owner and Lua are real; there is no Scrapy. Faults come at
random moments, also between the three steps of a commit: workers are killed, stopped
past their lease and going on, hand partitions over; answers are lost, so steps are
repeated; scripts are forgotten; Redis goes back to an older state. The judge wants each
page's line once, each line of a child with ``dont_filter`` once, and the end.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import NotOwnerError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.parameters import Parameters
from bloomdupe.frontier.held_frontier import HeldFrontier
from bloomdupe.frontier.sent_request import partition_of
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.crawl_reader import NOBODY
from bloomdupe.store.redis.owner import PartitionOwner
from bloomdupe.store.store import Part
from support.judge import Verdict, compare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.frontier.slot_queue import Entry
    from bloomdupe.store.redis.crawl_reader import Sample
    from support.redis_server import RedisServer

PARTITIONS = 5
HOSTS = 12
WORKERS = 3
TURN = 0.05
"""Seconds."""
LEASE = 20 * TURN
FAULTY = 900
"""Turns with faults; then the crawl comes to its end."""
MOST_TURNS = 6_000
_numbers = count()


class Unit(NamedTuple):
    """A page; or a child of a page with ``dont_filter``, which has a number."""

    page: int
    child: int = -1

    @property
    def host(self) -> str:
        # A child is on another host than its page.
        return f"host {(self.page + self.child + 1) % HOSTS}"

    @property
    def partition(self) -> int:
        return partition_of(self.host, PARTITIONS)

    @property
    def line(self) -> str:
        return f"{self.page}" if self.child < 0 else f"{self.page}.{self.child}"


def encoded(unit: Unit) -> bytes:
    return json.dumps(unit).encode()


def decoded(data: bytes | None) -> Unit:
    assert data is not None
    return Unit(*json.loads(data))


def joined(address: Address, partitions: int = 1) -> PartitionOwner:
    """Return the owner of all partitions of a crawl, whoever has had them."""
    owner = PartitionOwner(address, partitions)
    owners = owner.sample(partitions).owners
    owner.take({number: owners.get(number, NOBODY) for number in range(partitions)})
    return owner


class World:
    """A crawl of pages with links, on a server, and its earlier states."""

    def __init__(self, server: RedisServer, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pages = self.rng.randrange(20, 70)
        self.name = f"owners {next(_numbers)}"
        self.address = Address.of(server.url(self.name))
        self.judge = server.client()
        self.turn = 0
        self.faults: Counter[str] = Counter()
        self._states: list[Any] = []
        maker = joined(self.address, PARTITIONS)
        for store in maker.stores.values():
            BloomFilter.open(store, 2_000)
        first = Unit(0)
        commit = maker.begin(
            {}, sent={first.partition: [encoded(first)]}, give=range(PARTITIONS)
        )
        commit.send()
        commit.done()
        maker.give_back()

    def links(self, page: int) -> list[Unit]:
        rng = random.Random(page)
        some = [2 * page + 1, 2 * page + 2, *(rng.randrange(self.pages),) * 2]
        return [Unit(one) for one in some if one < self.pages]

    def children(self, page: int) -> list[Unit]:
        number = random.Random(page).choice([0, 0, 0, 1, 2])
        return [Unit(page, child) for child in range(number)]

    def save(self) -> None:
        """Remember the state of this moment."""
        keys: Any = self.judge.keys(f"bd:{{{self.name}}}:*")
        self._states.append({key: self.judge.dump(key) for key in keys})
        del self._states[:-4]

    def go_back(self) -> None:
        """Let Redis have an older state, which belongs to one moment."""
        if not self._states:
            return
        state = self.rng.choice(self._states)
        self._states.clear()
        self.faults["back"] += 1
        with self.judge.pipeline() as pipeline:
            pipeline.delete(*self.judge.keys(f"bd:{{{self.name}}}:*"))
            for key, value in state.items():
                pipeline.restore(key, 0, value)
            pipeline.execute()

    def lines(self) -> Counter[str]:
        found: Any = self.judge.xrange(f"bd:{{{self.name}}}:output")
        return Counter(fields[b"line"].decode() for _, fields in found)

    def expected(self) -> Counter[str]:
        units = [Unit(page) for page in range(self.pages)]
        units += [child for unit in units for child in self.children(unit.page)]
        return Counter(unit.line for unit in units)

    def clean(self) -> None:
        self.judge.delete(*self.judge.keys(f"bd:{{{self.name}}}:*"))
        self.judge.close()


class Worker:
    """Fetches pages, a few at a time, without a downloader."""

    def __init__(self, world: World) -> None:
        self.world, self.rng = world, world.rng
        self.owner = PartitionOwner(world.address, PARTITIONS)
        self.frontier = HeldFrontier(
            self.owner,
            LEASE,
            BloomFilter.open,
            parameters=Parameters.checked(2_000),
            wait=lambda _slot, _in_progress: 0.0,
            partitions=PARTITIONS,
            clock=lambda: world.turn * TURN,
        )
        self._begin()

    def _begin(self) -> None:
        self.leases: list[Entry] = []
        self.lines: list[str] = []
        self.sent: set[Unit] = set()
        self.steps: Iterator[None] | None = None

    def act(self) -> bool:
        """Do something; return whether the crawl was seen to be finished."""
        try:
            return self._act()
        except NotOwnerError:
            self.world.faults["refused"] += 1
            self._begin()
            self.frontier.read_again()
            return False

    def _act(self) -> bool:
        kind = self.rng.random()
        if kind < 0.10:
            return self._sample()
        if kind < 0.30:
            self._commit()
        elif kind < 0.42:
            limit, staying = self.rng.randrange(1, 20), self.frontier.staying()
            for read in self.frontier.taking_in(
                dict.fromkeys(staying, limit), self._take_in
            ):
                read()
        elif kind < 0.72:
            self._lease()
        else:
            self._finish()
        return False

    # The pages

    def _lease(self) -> None:
        entry = self.frontier.pop() if len(self.leases) < 4 else None
        if entry is not None:
            self.leases.append(entry)

    def _finish(self) -> None:
        if not self.leases:
            return
        entry = self.leases.pop(self.rng.randrange(len(self.leases)))
        unit = decoded(entry.payload)
        self.lines.append(unit.line)
        if unit.child < 0:
            for link in [*self.world.links(unit.page), *self.world.children(unit.page)]:
                self._push(link)
        self.frontier.ack(entry)

    def _push(self, unit: Unit) -> None:
        if self.frontier.is_here(unit.host):
            self._here(unit)
        elif unit.child >= 0 or unit not in self.sent:
            self.sent.add(unit)
            self.frontier.send(unit.partition, encoded(unit))

    def _take_in(self, partition: int, entries: list[bytes]) -> None:
        for unit in map(decoded, entries):
            assert unit.partition == partition
            self._here(unit)

    def _here(self, unit: Unit) -> None:
        seen = self.frontier.of_slot(unit.host).seen
        if unit.child >= 0 or seen.add(encoded(unit)):
            self.frontier.push(unit.host, 0, encoded(unit))

    # Commits, in three steps

    def _commit(self) -> None:
        """Go a step further, or more; pages go on between the steps."""
        self.steps = self.steps or self._committing()
        for _ in self.steps:
            if self.rng.random() < 0.5:
                return
        self.steps = None

    def _committing(self) -> Iterator[None]:
        before = len(self.frontier.partitions)
        lines = [[b"line", line.encode()] for line in self.lines]
        commit = self.frontier.begin([Part(output=lines)] if lines else [])
        self.lines = []
        yield
        step = self.owner.step
        commit.send()
        if self.rng.random() < 0.1:  # the answer was lost
            self.owner.step = step
            commit.send()
            self.world.faults["repeated"] += 1
        yield
        commit.done()
        self.world.faults["given"] += before - len(self.frontier.partitions)
        if self.rng.random() < 0.2:
            self.world.save()

    # Partitions

    def _sample(self) -> bool:
        if self.steps is not None:
            return False
        before = len(self.frontier.partitions)
        samples: list[Sample] = []
        for call in self.frontier.sampling(samples.append):
            call()
        self.world.faults["taken"] += len(self.frontier.partitions) - before
        if self.rng.random() < 0.05 and (staying := self.frontier.staying()):
            self.frontier.give(self.rng.choice(staying))
        return samples[0].finished


def trial(server: RedisServer, seed: int, happened: set[str]) -> Verdict:
    """Crawl, with faults at first, the names of which are added to ``happened``.

    An older state of Redis is written by commands; F23 cuts its log.
    """
    world = World(server, seed)
    rng, faults = world.rng, world.faults
    crew = [Worker(world) for _ in range(WORKERS)]
    stopped: dict[Worker, int] = {}
    ended = False
    while world.turn < MOST_TURNS and not ended:
        world.turn += 1
        awake = [one for one in crew if stopped.get(one, 0) <= world.turn]
        worker = rng.choice(awake)
        chance = rng.random() if world.turn < FAULTY else 1.0
        if chance < 0.01:
            worker.owner.close()
            crew[crew.index(worker)] = Worker(world)
            faults["killed"] += 1
        elif chance < 0.02 and len(awake) > 1:
            stopped[worker] = world.turn + rng.randrange(20, 240)
            faults["stopped"] += 1
        elif chance < 0.03:
            world.go_back()
        elif chance < 0.031:
            world.judge.script_flush()
        else:
            ended = worker.act()
    for one in crew:
        one.owner.close()
    happened.update(+faults)
    verdict = compare(world.expected(), world.lines())
    if not ended:
        verdict.lost.append("it does not come to its end")
    world.clean()
    return verdict
