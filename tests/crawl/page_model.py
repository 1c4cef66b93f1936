"""Random spiders over the real acceptance, frontier, acks and checkpoint.

A program says what each page yields. A crawl does it in one process, without Scrapy's
engine, step by step: it goes on with ``start()``, hands out a request, lets a callback
go on, or goes on with a checkpoint, which is out meanwhile as it is on a network. It
may be killed or told to stop before any step. What it has committed is in a store, from
which the next crawl goes on. However often it is killed or stopped, each item must be
there as often as without that.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace, coroutine
from typing import Any, NamedTuple

from scrapy import Request
from support.jobs import SPIDER, idle_crawler

from bloomdupe import BloomFilter
from bloomdupe.crawl.acceptance import Acceptance
from bloomdupe.crawl.engines.checkpoint import Checkpoint
from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
from bloomdupe.crawl.engines.session import Session
from bloomdupe.crawl.in_flight.outcomes import Outcome, Outcomes
from bloomdupe.crawl.in_flight.registry import InFlightRegistry
from bloomdupe.crawl.in_flight.request import InFlightRequest
from bloomdupe.crawl.progress.rounds import Run
from bloomdupe.crawl.retries import NOT_BEFORE
from bloomdupe.crawl.starting import Starting
from bloomdupe.crawl.state.failures import Failures
from bloomdupe.errors import NotOwnerError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.inside_scrapy.processing import CURRENT
from bloomdupe.requests.layout import Visit
from bloomdupe.requests.serializer import Serializer
from bloomdupe.store.store import Commit, Part

START = "p0"
ITEM = "start item"
DEEPEST = 3
MOST_STEPS = 20_000
MOST_RUNS = 200
PLAIN = ("link", "alone", "shared")
IN_MEMORY = ("alone", "shared", "part")
ANSWERS = ("redirect", "retried")


class Op(NamedTuple):
    """A step of a callback, or of ``start()``."""

    kind: str
    """``item``; ``link``, a plain request; ``alone``, one that cannot be stored and
    carries constants; ``shared``, one with a list; ``volatile``, with ``dont_filter``;
    ``delayed``, the same for a time in future; ``part``, one that cannot be stored;
    ``retry``, the page again; ``wait`` for the last request of these. In the place of a
    page the downloader may answer with a request: ``redirect``, or ``retried``."""
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
        child = Op(self.random.choice([*PLAIN, "volatile", "part"]), "start child")
        self._add(child.page, names, 1)
        self.starts = [
            Op(self.random.choice(["link", "volatile"]), START),
            Op("start item", ITEM),
            *[child] * self.random.choice([0, 0, 1, 2]),
        ]
        self.faults: dict[str, str] = {}
        """Pages that go wrong once: their callbacks close the spider (``close``),
        before they yield anything or at their end, or their processing breaks off."""
        for name in self.pages:
            if name != ITEM and self.random.random() < 0.15:
                kind = self.random.choice(["close", "break"])
                self.faults[name] = f"{kind} {name}"

    def _add(self, name: str, links: list[str], depth: int) -> None:
        steps = self.pages[name] = []
        if depth == 0 and name != links[-1] and self.random.random() < 0.1:
            further = links[links.index(name) + 1 :]  # so that it ends
            steps.append(Op("redirect", self.random.choice(further)))
            return
        if 0 < depth < DEEPEST and self.random.random() < 0.1:
            steps.append(Op("redirect", f"{name} target"))
            self._add(f"{name} target", links, depth + 1)
            return
        kinds = ["item", "item", "link", "link", "alone", "shared"]
        if depth < DEEPEST:
            kinds += ["volatile", "volatile", "delayed", "part", "retry"]
        for number in range(self.random.randint(1, 5)):
            kind = self.random.choice(kinds)
            if kind == "item":
                steps.append(Op(kind, f"{name} item {number}"))
            elif kind == "link":
                steps.append(Op(kind, self.random.choice(links)))
            elif kind in PLAIN:  # another callback may use the start page once
                steps.append(Op(kind, self.random.choice(links[1:])))
            else:
                child = f"{name} {kind} {number}"
                self._add(child, links, depth + 1)
                steps.append(Op(kind, child))
                if self.random.random() < 0.3:
                    steps.append(Op("wait"))

    def expected(self) -> Counter[str]:
        """Return the items of a crawl that nothing disturbs."""
        seen = {op.page for op in self.starts if op.kind not in PLAIN}
        left, items = [(op, False) for op in self.starts], Counter[str]()
        while left:
            op, forced = left.pop()
            if op.kind == "item":
                items[op.page] += 1
            elif op.kind != "wait":
                if op.kind != "redirect":  # which has dont_filter as its page has
                    forced = op.kind not in PLAIN
                if forced or op.page not in seen:
                    seen.update([] if forced else [op.page])
                    left += [(step, forced) for step in self.pages[op.page]]
        return items


def refuse(store: Any, chance: random.Random, most: int) -> list[NotOwnerError]:
    """Refuse commits of a store by chance, as if another owner had written.

    Not for ever: a page with many parts is done between two refusals, or never. The
    list that is returned has all that there were so far.
    """
    begin, refused = store.begin, list[NotOwnerError]()

    def begun(*parts: Any) -> Commit:
        commit: Commit = begin(*parts)
        send = commit.send

        def sent() -> None:
            if len(refused) < most and chance.random() < 0.3:
                refused.append(NotOwnerError("refused"))
                raise refused[-1]
            send()

        commit.send = sent
        return commit

    store.begin = begun
    return refused


def _nothing(*_: object, **__: object) -> None:
    """Stand for what the model does without."""


class _Feeds:
    """The output, in the record of the crawl."""

    def __init__(self, items: dict[str, int]) -> None:
        self.items = items

    def append(self) -> None: ...

    def prepare(self, lines: Iterator[tuple[int, bytes]]) -> Part:
        taken = [line.decode() for _, line in lines]
        items = dict(Counter(self.items) + Counter(taken))

        def done() -> None:
            self.items = items

        return Part(entries={"items": items}, done=done)


class BareSession(Session):
    """Scrapy's side: what decides on requests, and nothing else."""

    def __init__(self, slot_of: Callable[[Request], str]) -> None:
        nothing: Any = SimpleNamespace(
            inc_value=_nothing, took=_nothing, wake=_nothing, wake_start=_nothing,
            read_again=_nothing, handed_out=_nothing, answered=_nothing, ended=_nothing,
            limited=False, start_requests="resume", max_failures=0,
            answering=None, slot_of=slot_of, go_through=_nothing, log_sleep=_nothing,
        )  # fmt: skip
        self.spider = SPIDER
        self.settings = self.stats = self.slots = nothing
        self.processing = self.access = self.ending = nothing
        self.registry = InFlightRegistry()
        self.serializer = Serializer(SPIDER)
        self.fingerprint = lambda request: request.url.encode()
        self.key_of = lambda request: (request.url.encode(), False)  # type: ignore[method-assign]
        self.growing = None
        self.closed = False


class Engine(CrawlEngine):
    """The engine in a store, without a crawl around it."""

    durable = True
    feeds: Any
    _filtered = True

    def __init__(self, store: Path, session: BareSession, clock: Any) -> None:
        self.session = session
        self.session.engine = self.registry.engine = self
        self._access, self._stats = session.access, session.stats
        self._unmarked = set()
        self.commits_soon = False
        soon: Any = SimpleNamespace(commit_soon=self._commit_soon)
        soon.commit_shortly, soon.quiet = _nothing, SimpleNamespace(holds=False)
        self.committing = soon
        self.failures = Failures(self)
        self.revisits: Any = SimpleNamespace(
            follow=lambda *_: Visit(), answered=_nothing
        )
        self.cookies = self.memory = self._added = self._refused = None
        self.frontier = Frontier(
            BloomFilter.open(store, capacity=1000), clock=clock, wall=clock
        )
        notes = self.frontier.seen.notes
        self.run = Run(notes, pending=len(self), again=False, stays=False)
        self.starting = Starting(session, self.run)
        self.outcomes = Outcomes(store)
        self.checkpoint = Checkpoint(_crawler(), self.frontier, self.outcomes)
        feeds: Any = _Feeds(self.checkpoint.record.get("items", {}))
        self.feeds = self.checkpoint.feeds = feeds

    @property
    def registry(self) -> InFlightRegistry:
        """The requests in flight."""
        return self.session.registry

    def _commit_soon(self) -> None:
        self.commits_soon = True

    def read_again(self) -> None:
        """Read the frontier, too: its owner has not changed."""
        frontier, load = self.frontier, self.frontier.load
        seen, clock = frontier.seen, frontier._clock
        seen._begin(seen.parameters, seen.store, seen._memory)
        Frontier.__init__(frontier, seen, clock=clock, wall=clock)
        frontier.load = load
        super().read_again()


@cache
def _crawler() -> Any:
    return idle_crawler()


class Callback:
    """A request in flight: its steps that are left."""

    def __init__(self, in_flight: InFlightRequest, name: str, steps: list[Op]) -> None:
        self.in_flight = in_flight
        self.name = name
        self.steps = [*steps]
        self.last: int | None = None
        """The last request that it has yielded."""
        self.asked: int | None = None
        """The request for which it waits, until that is done."""


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
        self.session = BareSession(lambda _: chance.choice("ab"))
        self.engine = Engine(store, self.session, lambda: self.now)
        self.registry = self.engine.registry
        ours: Any = SimpleNamespace(log=_nothing)
        self.acceptance = Acceptance(self.session, ours, marks=True)
        self.acceptance._warned.add(_unstorable.__code__)
        self.refused = refuse(self.engine.frontier.store, chance, refusals)
        self.running: list[Callback] = []
        self.pending: set[int] = set()
        """Numbers of requests that are not done."""
        self.numbers = iter(range(1_000_000))
        self.stopping = False
        self.out: list[Callable[[], object]] = []
        """What is left to do of a checkpoint that has begun."""
        self.loads: list[tuple[Any, Callable[[Any], None]]] = []
        """What is being read on another thread."""
        if chance.random() < 0.5:
            self.engine.frontier.load = lambda *load: self.loads.append(load)
        access: Any = self.session.access
        access.start_again, access.go_through = self._outputs, self._go_through
        self._go_through(self.engine.starting.watch())
        self.begin()

    def run(self, kill: float, stop: float) -> bool:
        """Go on until nothing is left; return whether it was killed.

        These are the chances of that, and of a stop in peace, before each step. Not all
        before a kill is durable.
        """
        for _ in range(MOST_STEPS):
            if self.chance.random() < kill:
                return True
            if self.chance.random() < stop:
                self.stopping = True
            if self.out and self.chance.random() < 0.3:
                self.go_on()
            elif self.loads and self.chance.random() < 0.5:
                self.load()
            elif not (self.step() or self.loads):
                self.begin()
                while self.out:
                    self.go_on()
                if not (self.engine.checkpoint.changed or self.ready):
                    self._check_nothing_is_in_flight()
                    return False
            elif self.engine.commits_soon or self.chance.random() < 0.2:
                self.begin()
        raise AssertionError("it does not end")

    def _check_nothing_is_in_flight(self) -> None:
        """Check that each request has ended, and those of pages that were left, too.

        Their lines take no room any more, neither in memory nor in the spill file. A
        crawl that was told to stop hands nothing out that a callback may wait for.
        """
        if self.stopping:
            return
        for partition in self.engine.frontier.all:
            assert partition.in_flight == 0
        assert not self.registry
        assert not self.registry.volatile
        outcomes = self.engine.outcomes
        outcomes.forget(Outcome())  # as the next commit does
        assert not outcomes._size
        file = outcomes._file
        assert file is None or not os.fstat(file.fileno()).st_size

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
        status = self.engine.status
        return self.engine.starting.over and not status.left

    def close(self) -> None:
        if self.start is not None:
            self.start.close()
        self.engine.outcomes.close()
        self.engine.frontier.seen.close()

    # start()

    async def _outputs(self) -> AsyncIterator[Request | str]:
        async def start() -> AsyncIterator[Request | str]:
            for op in self.program.starts:
                await _turn()
                yield ITEM if op.page == ITEM else _request(op)

        return start()

    def _go_through(self, outputs: AsyncIterator[Any]) -> None:
        async def go() -> None:
            async for output in outputs:
                if isinstance(output, Request):
                    self.acceptance.takes(output)
                else:
                    item: Any = CURRENT.get()
                    self.running.append(Callback(item, ITEM, self.program.pages[ITEM]))

        self.start: Coroutine[Any, Any, None] | None = go()
        self._go_on_with_start()

    def _go_on_with_start(self) -> None:
        assert self.start is not None
        try:
            self.start.send(None)
        except StopIteration:
            self.start = None

    @property
    def ready(self) -> list[Callback]:
        """The callbacks that wait for no request."""
        return [each for each in self.running if each.asked not in self.pending]

    def step(self) -> bool:
        """Go on with anything; False if nothing is left."""
        ready = self.ready
        starts = self.start is not None and not self.stopping
        if starts and (not ready or self.chance.random() < 0.3):
            self._go_on_with_start()
            return True
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
        request = self.registry.in_memory(entry)
        request = request or self.session.serializer.load(entry.payload)
        in_flight = self.registry.add(request, entry)
        assert in_flight.page is None or not in_flight.page.is_left
        name = request.meta["name"]
        steps = self.program.pages[name]
        retries = request.dont_filter or steps[0].kind != "redirect"
        if retries and self.chance.random() < 0.1:
            steps = [Op("retried", name)]
        steps = self.chance.sample(steps, len(steps))  # another order in each run
        self.running.append(Callback(in_flight, name, steps))

    def _go_on(self, callback: Callback) -> None:
        in_flight, steps = callback.in_flight, callback.steps
        fault = self.program.faults.get(callback.name, "")
        early = fault.startswith("break") or not in_flight.begun
        if fault in self.faults and (
            not steps or (early and self.chance.random() < 0.4)
        ):
            self.faults.remove(fault)
            self._end(callback, fault)
            return
        if not steps:
            self._end(callback)
            return
        op = steps.pop(0)
        CURRENT.set(in_flight)
        if op.kind == "item":
            in_flight.takes_item()
            self.session.take_item(None, [(0, op.page.encode())])
        elif op.kind == "wait":
            callback.asked = callback.last
        else:
            self._ask(op, callback)

    def _end(self, callback: Callback, fault: str = "") -> None:
        in_flight = callback.in_flight
        self.running.remove(callback)
        self.pending.discard(in_flight.request.meta.get("number"))
        if fault.startswith("close"):
            in_flight.closed_spider(ValueError("banned"), None)
            self.stopping = True
        in_flight.root.broken |= fault.startswith("break")
        in_flight.ended()

    def _ask(self, op: Op, callback: Callback) -> None:
        """Yield a request, as a callback or as the downloader."""
        request = _request(op, callback.in_flight)
        number = request.meta["number"] = next(self.numbers)  # others in each process
        if op.kind == "delayed":
            request.meta[NOT_BEFORE] = self.now + 100
        if op.kind in ANSWERS:
            callback.in_flight.answered(request)
            self.session.processing.answering = callback.in_flight
        if self.acceptance.takes(request):
            self.pending.add(number)
            callback.last = number
        self.session.processing.answering = None


def _request(op: Op, page: Any = None) -> Request:
    """Return a request of a page, or of ``start()``."""
    url = f"data:,{op.page}"
    if op.kind in (*ANSWERS, "retry"):
        request: Request = page.request.copy()
        request.meta["name"] = op.page
        if op.kind == "redirect":
            return request.replace(url=url)
        request.meta["retry_times"] = request.meta.get("retry_times", 0) + 1
        return request.replace(dont_filter=True)
    return Request(
        url,
        _unstorable if op.kind in IN_MEMORY else None,
        cb_kwargs={"shared": []} if op.kind == "shared" else {},
        meta={"name": op.page},
        dont_filter=op.kind not in PLAIN,
    )


def _unstorable(_: object) -> None:
    """Be no method of the spider, so that a request with it cannot be stored."""


@coroutine
def _turn() -> Iterator[None]:
    """Let the crawl do something else."""
    yield


class Lost(NamedTuple):
    """What the judge found."""

    missing: Counter[str]
    doubled: Counter[str]
    kills: int
    stops: int
    refused: int


def judged(
    seed: int, store: Path, kills: int = 4, refusals: int = 0, stops: int = 2
) -> Lost:
    """Do a program with kills and stops at random steps, and compare its items."""
    program = Program(seed)
    chance = random.Random(f"{seed} crawl")
    faults = {*program.faults.values()}
    killed = stopped = refused = 0
    for _ in range(MOST_RUNS):
        crawl = Crawl(program, store, chance, faults, refusals)
        kill = crawl.run(
            0.04 if killed < kills else 0.0, 0.02 if stopped < stops else 0.0
        )
        items = Counter(crawl.engine.feeds.items)
        crawl.close()
        killed += kill
        stopped += crawl.stopping
        refused += len(crawl.refused)
        if not kill and crawl.is_finished:
            expected = program.expected()
            return Lost(expected - items, items - expected, killed, stopped, refused)
    raise AssertionError("it is never finished")
