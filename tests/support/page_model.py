"""Random spiders over the real frontier, acks and checkpoint, without Scrapy.

A program says what each page yields. A crawl does it in one process, step by step: it
hands out a request, lets a callback go on, or goes on with a checkpoint, which is out
meanwhile as it is on a network. It may be killed before any step. What it
has committed is in a store, from which the next crawl goes on. However often it is
killed, each item must be there as often as without a kill.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from scrapy import Request

from bloomdupe import BloomFilter
from bloomdupe.crawl.engines.checkpoint import Checkpoint, record_of
from bloomdupe.crawl.engines.crawl_engine import CrawlEngine, Loose
from bloomdupe.crawl.in_flight.outcomes import Outcomes
from bloomdupe.crawl.in_flight.registry import InFlightRegistry
from bloomdupe.crawl.in_flight.request import Accepted, InFlightRequest
from bloomdupe.crawl.starting import StartItem
from bloomdupe.errors import NotOwnerError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store.store import Commit, Part
from support.jobs import idle_crawler

START = "p0"
ITEM = "start item"
DEEPEST = 3
MOST_STEPS = 20_000


class Op(NamedTuple):
    """A step of a callback."""

    kind: str
    """``item``; ``link``, a plain request; ``alone``, one that cannot be stored and
    carries constants; ``volatile``, with ``dont_filter``; ``later``, the same for a
    time in future; ``part``, one that cannot be stored with a list; ``retry``, the page
    again; ``wait`` for the last request of these."""
    page: str = ""


class Program:
    """The pages of a random site, by name; each is a list of steps."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pages: dict[str, list[Op]] = {}
        names = [f"p{number}" for number in range(self.random.randint(3, 8))]
        for name in names:
            self._add(name, names, 0)
        self.pages[ITEM] = [Op("item", ITEM)]
        if self.random.random() < 0.5:
            self._add(f"{ITEM} child", names, 1)
            self.pages[ITEM].insert(0, Op("volatile", f"{ITEM} child"))
        self.faults: dict[str, str] = {}
        """Pages that go wrong once: their callbacks close the spider before they yield
        anything (``ban``), or their processing breaks off."""
        for name in self.pages:
            if name != ITEM and self.random.random() < 0.05:
                kind = self.random.choice(["ban", "break"])
                self.faults[name] = f"{kind} {name}"

    def _add(self, name: str, links: list[str], depth: int) -> None:
        steps = self.pages[name] = []
        kinds = ["item", "item", "link", "link", "alone"]
        if depth < DEEPEST:
            kinds += ["volatile", "volatile", "later", "part", "retry"]
        for number in range(self.random.randint(1, 5)):
            kind = self.random.choice(kinds)
            if kind == "item":
                steps.append(Op(kind, f"{name} item {number}"))
            elif kind in ("link", "alone"):
                steps.append(Op(kind, self.random.choice(links)))
            else:
                child = f"{name} {kind} {number}"
                self._add(child, links, depth + 1)
                steps.append(Op(kind, child))
                if self.random.random() < 0.3:
                    steps.append(Op("wait"))

    def expected(self) -> Counter[str]:
        """Return the items of a crawl that nothing disturbs."""
        seen, left, items = {START}, [START, ITEM], Counter[str]()
        while left:
            for op in self.pages[left.pop()]:
                if op.kind == "item":
                    items[op.page] += 1
                elif op.kind in ("link", "alone"):
                    if op.page not in seen:
                        seen.add(op.page)
                        left.append(op.page)
                elif op.kind != "wait":
                    left.append(op.page)
        return items


class Refusing:
    """Refuses commits of a store by chance, as if another owner had written.

    Not for ever: a page with many parts is done between two refusals, or never.
    """

    def __init__(self, store: Any, chance: random.Random, most: int) -> None:
        self.begin = store.begin
        self.chance = chance
        self.most = most
        self.refused = 0
        store.begin = self

    def __call__(self, *parts: Any) -> Commit:
        commit: Commit = self.begin(*parts)
        send = commit.send

        def sent() -> None:
            if self.refused < self.most and self.chance.random() < 0.3:
                self.refused += 1
                raise NotOwnerError("refused")
            send()

        commit.send = sent
        return commit


def _nothing(*_: object, **__: object) -> None:
    """Stand for what the model does without."""


class _Feeds:
    """The output, in the record of the crawl."""

    def __init__(self, items: dict[str, int]) -> None:
        self.items = items

    def sync(self) -> None: ...

    def append(self) -> None: ...

    def prepare(self, lines: Iterator[tuple[int, bytes]]) -> Part:
        taken = [line.decode() for _, line in lines]
        items = dict(Counter(self.items) + Counter(taken))

        def done() -> None:
            self.items = items

        return Part(entries={"items": items}, done=done)


class Engine(CrawlEngine):
    """The engine in a store, without a crawl around it."""

    durable = True
    _filtered = True

    def __init__(self, store: Path, clock: Any) -> None:
        self._stats: Any = SimpleNamespace(inc_value=_nothing)
        nothing: Any = SimpleNamespace(
            idle=False, read_again=_nothing, took=_nothing, wake=_nothing
        )
        self.session: Any = SimpleNamespace(
            spider=None,
            registry=InFlightRegistry(),
            slots=nothing,
            comes_last=lambda _: False,
            forget_links=_nothing,
        )
        self.session.registry.engine = self
        self._unmarked = {}
        self.failures = None
        self.commits_soon = False
        self.run = self._access = nothing
        self.memory = self._added = self._refused = None
        self._loose = Loose()
        self.frontier = Frontier(
            BloomFilter.open(store, capacity=1000), clock=clock, wall=clock
        )
        self.outcomes = Outcomes(store)
        record = record_of(self.frontier)
        feeds: Any = _Feeds(record.get("items", {}))
        self.checkpoint = Checkpoint(
            _crawler(), self.frontier, self.outcomes, record, feeds
        )
        self.checkpoint.participants.append(self._loose)
        self.feeds = feeds

    def _with_visit(self, payload: bytes, parent: InFlightRequest) -> bytes:
        del parent
        return payload

    @property
    def registry(self) -> InFlightRegistry:
        """The requests in flight."""
        return self.session.registry  # type: ignore[no-any-return]

    def _commit_soon(self) -> None:
        self.commits_soon = True

    def next(self) -> Any:
        """Hand out a request."""
        return self._pop()


@cache
def _crawler() -> Any:
    return idle_crawler()


class Callback:
    """A request in flight: its steps that are left."""

    def __init__(self, in_flight: InFlightRequest, name: str, steps: list[Op]) -> None:
        self.in_flight = in_flight
        self.name = name
        self.steps = [*steps]
        self.asked: object = None
        """The last request that it has yielded, until it is done."""


class Crawl:
    """One process of a crawl."""

    def __init__(
        self,
        program: Program,
        store: Path,
        chance: random.Random,
        faults: set[str],
        refusals: int = 0,
    ) -> None:
        self.program = program
        self.chance = chance
        self.faults = faults
        """Faults of the program that have not happened yet, in any process."""
        self.now = 0.0
        self.engine = Engine(store, lambda: self.now)
        self.registry = self.engine.registry
        self.refusing = Refusing(self.engine.frontier.store, chance, refusals)
        self.running: list[Callback] = []
        self.pending: set[int] = set()
        """Numbers of requests that are not done."""
        self.numbers = iter(range(1_000_000))
        self.last = 0
        self.stopping = False
        self.out: list[Callable[[], object]] = []
        """What is left to do of a checkpoint that has begun."""
        self.loads: list[tuple[Any, Callable[[Any], None]]] = []
        """What is being read on another thread."""
        if chance.random() < 0.5:
            self.engine.frontier._load = lambda *load: self.loads.append(load)
        self._start()

    def run(self, kill: float) -> bool:
        """Go on until nothing is left; return whether it was killed.

        ``kill`` is the chance before each step. Not all before a kill is durable.
        """
        for _ in range(MOST_STEPS):
            if self.chance.random() < kill:
                return True
            if self.out and self.chance.random() < 0.3:
                self.go_on()
            elif self.loads and self.chance.random() < 0.5:
                self.load()
            elif not (self.step() or self.loads):
                self.begin()
                while self.out:
                    self.go_on()
                if not (self.engine.checkpoint.changed or self.ready):
                    return False
            elif self.engine.commits_soon or self.chance.random() < 0.2:
                self.begin()
        raise AssertionError("it does not end")

    def begin(self) -> None:
        """Begin a checkpoint, which is out until it is sent and done."""
        if self.out:
            return
        self.engine.commits_soon = False
        steps = self.engine.checkpoint.steps()
        self.out = [next(steps), lambda: next(steps, None)]

    def go_on(self) -> None:
        """Send the checkpoint that is out, or do what follows then."""
        try:
            self.out.pop(0)()
        except NotOwnerError:
            self.out.clear()
            self.pending.clear()
            self.engine.read_again()
            self._start()

    def load(self) -> None:
        """Read the next requests of a slot, or hand them over."""
        number = self.chance.randrange(len(self.loads))
        read, then = self.loads[number]
        if isinstance(read, tuple):
            del self.loads[number]
            then(read)
        else:
            self.loads[number] = read(), then

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left for a further run."""
        frontier = self.engine.frontier
        return not (frontier.pending or frontier.waiting or frontier.unacked)

    def close(self) -> None:
        self.engine.outcomes.close()
        self.engine.frontier.seen.close()

    def _start(self) -> None:
        self._ask(Op("link", START), None)
        key = b"item 1"
        if not self.engine.knows(key, exact=True):
            item = StartItem(self.registry, key)
            self.running.append(Callback(item, ITEM, self.program.pages[ITEM]))
        self.begin()

    @property
    def ready(self) -> list[Callback]:
        """The callbacks that wait for no request."""
        return [each for each in self.running if each.asked not in self.pending]

    def step(self) -> bool:
        """Go on with anything; False if nothing is left."""
        ready = self.ready
        if not ready or self.chance.random() < 0.5:
            entry = None if self.stopping else self.engine.next()
            if entry is not None:
                self._begin(entry)
                return True
            if not ready:
                if not self.stopping and self.engine.frontier.waiting:
                    self.now += 10
                    return True
                return False
        self._go_on(self.chance.choice(ready))
        return True

    def _begin(self, entry: Any) -> None:
        request = entry.attachment or request_of(*entry.payload.decode().split("#"))
        in_flight = self.registry.add(request, entry)
        name = request.meta["name"]
        self.running.append(Callback(in_flight, name, self.program.pages[name]))

    def _go_on(self, callback: Callback) -> None:
        in_flight = callback.in_flight
        if (fault := self.program.faults.get(callback.name)) in self.faults:
            self.faults.remove(fault)
            self._end(callback, fault)
            return
        if not callback.steps:
            self._end(callback)
            return
        op = callback.steps.pop(0)
        if op.kind == "item":
            if in_flight.takes_item():
                self.engine.add_line(in_flight.outcome, (0, op.page.encode()))
        elif op.kind == "wait":
            callback.asked = self.last
        else:
            self._ask(op, in_flight)

    def _end(self, callback: Callback, fault: str = "") -> None:
        in_flight = callback.in_flight
        self.running.remove(callback)
        if type(in_flight) is StartItem:
            self.registry.end_item(in_flight)
            return
        self.pending.discard(in_flight.request.meta["number"])
        if fault.startswith("ban"):
            in_flight.closed_spider(ValueError("banned"), None)
            self.stopping = True
        in_flight.ended(complete=not fault.startswith("break"))

    def _ask(self, op: Op, in_flight: InFlightRequest | None) -> None:
        """Yield a request, as a callback or as ``start()``."""
        plain = op.kind in ("link", "alone")
        key = b"page " + op.page.encode()
        if plain and self.engine.knows(key, exact=False):
            return
        number = self.last = next(self.numbers)
        self.pending.add(number)
        request = request_of(op.page, str(number))  # which differs in each process
        request.dont_filter = not plain
        if op.kind == "part":
            request.cb_kwargs["shared"] = []
        in_memory = op.kind in ("alone", "part")
        accepted = Accepted(
            request,
            None if in_memory else f"{op.page}#{number}".encode(),
            self.chance.choice("ab"),
            None if type(in_flight) is StartItem else in_flight,
            None if in_flight is None else in_flight.root,
            [(key, False)] if plain else [],
            op.kind == "retry",
            self.now + 100 if op.kind == "later" else None,
            of_start=in_flight is None,
        )
        self.engine.take(accepted)


def request_of(name: str, number: str) -> Request:
    return Request("data:,", meta={"name": name, "number": int(number)})


class Lost(NamedTuple):
    """What the judge found."""

    missing: Counter[str]
    doubled: Counter[str]
    kills: int
    refused: int


def judged(seed: int, store: Path, kills: int = 4, refusals: int = 0) -> Lost:
    """Do a program with kills at random steps, and compare its items."""
    program = Program(seed)
    chance = random.Random(f"{seed} crawl")
    faults = {*program.faults.values()}
    killed = refused = 0
    while True:
        crawl = Crawl(program, store, chance, faults, refusals)
        kill = crawl.run(0.04 if killed < kills else 0.0)
        items = Counter(crawl.engine.feeds.items)
        crawl.close()
        killed += kill
        refused += crawl.refusing.refused
        if not kill and crawl.is_finished:
            break
    expected = program.expected()
    return Lost(expected - items, items - expected, killed, refused)
