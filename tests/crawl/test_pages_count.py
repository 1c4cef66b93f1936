"""Whatever a page yields counts when the page counts, however a crawl is interrupted.

The model of :mod:`page_model` is the judge of the rule: see
:mod:`bloomdupe.crawl.in_flight.registry`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from page_model import BareSession, Engine, judged
from scrapy import Request
from support.repetition import slow_tests_run
from support.taken_out import waiting_for_pages

from bloomdupe.crawl import acceptance
from bloomdupe.crawl.acceptance import Acceptance
from bloomdupe.crawl.engines.session import Session
from bloomdupe.crawl.in_flight import outcomes, registry
from bloomdupe.crawl.in_flight.outcomes import Outcome, Outcomes
from bloomdupe.crawl.in_flight.registry import InFlightRegistry
from bloomdupe.crawl.in_flight.request import Accepted, InFlightRequest
from bloomdupe.crawl.starting import Starting, StartVerdict
from bloomdupe.frontier import partition
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.pending_requests import pending_requests
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.frontier.slot_queue import Entry
from bloomdupe.inside_scrapy.processing import Processing

PROGRAMS = 1_200 if slow_tests_run() else 60
PARTS = 10 if slow_tests_run() else 1
"""Tests that share the programs, for as many processes."""
CONTROLS, ENOUGH = 24, 3 if slow_tests_run() else 1
"""Programs of a control, and in how many of them the judge must see it."""


@pytest.fixture
def few_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nearly every request be read from the store, and many lines be spilled."""
    monkeypatch.setattr(partition, "MAX_LOADED", 3_000)
    monkeypatch.setattr(outcomes, "MOST_BYTES", 60)


@pytest.mark.usefixtures("few_in_memory")
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_lost_and_nothing_comes_twice(tmp_path: Path, part: int) -> None:
    killed = stopped = 0
    programs = range(part, PROGRAMS, PARTS)
    for seed in programs:
        found = judged(seed, tmp_path / str(seed))
        assert not found.missing, f"seed {seed}: {found}"
        assert not found.doubled, f"seed {seed}: {found}"
        killed += found.kills
        stopped += found.stops
    assert min(killed, stopped) > len(programs)


@pytest.mark.usefixtures("few_in_memory")
@pytest.mark.parametrize("part", range(PARTS))
def test_refused_commits_lose_nothing_and_double_nothing(
    tmp_path: Path, part: int
) -> None:
    refused = 0
    programs = range(part, PROGRAMS // 3, PARTS)  # each takes three times as long
    for seed in programs:
        found = judged(seed, tmp_path / str(seed), kills=1, refusals=10)
        assert not found.missing, f"seed {seed}: {found}"
        assert not found.doubled, f"seed {seed}: {found}"
        refused += found.refused
    assert refused > len(programs)


# Controls: a wrong rule, and what the judge sees of it


def durable_before_its_page(_: pytest.MonkeyPatch) -> None:
    waiting_for_pages()


def done_before_its_parts(patch: pytest.MonkeyPatch) -> None:
    expect = InFlightRegistry.expect_part

    def expected(
        self: InFlightRegistry, entry: Entry, accepted: Accepted, *, alone: bool
    ) -> None:
        expect(self, entry, accepted._replace(work=None), alone=alone)

    patch.setattr(InFlightRegistry, "expect_part", expected)


def answer_without_a_page(patch: pytest.MonkeyPatch) -> None:
    """Let a redirect, or a retry by a middleware, belong to no page."""
    parent = Session.parent

    def wrong(self: Session) -> InFlightRequest | None:
        return None if self.processing.answering else parent(self)

    patch.setattr(Session, "parent", wrong)


def redirect_to_a_known_page(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acceptance, "was_visited", lambda _: True)


def retry_checked_as_a_link(patch: pytest.MonkeyPatch) -> None:
    takes = Acceptance.takes

    def wrong(self: Acceptance, request: Request) -> bool:
        request.dont_filter &= self._session.processing.answering is None
        return takes(self, request)

    patch.setattr(Acceptance, "takes", wrong)


def output_without_its_page(patch: pytest.MonkeyPatch) -> None:
    """Let output count though its page is not done."""
    forget = Outcomes.forget

    def committed(self: Outcomes, outcomes: int) -> None:
        for _ in range(outcomes):
            forget(self, self._acked.popleft())

    patch.setattr(Outcomes, "committed", committed)
    patch.setattr(Outcomes, "forget", Outcomes.ack)


def closed_without_output(patch: pytest.MonkeyPatch) -> None:
    """Let ``CloseSpider`` end a page that has yielded nothing."""
    patch.setattr(InFlightRequest, "closed_spider", InFlightRequest.raised)


def closed_with_output(patch: pytest.MonkeyPatch) -> None:
    """Let output count when ``CloseSpider`` is raised, and when its page ends."""

    def wrong(self: InFlightRequest, *_: object) -> None:
        self.registry.engine.outcomes.ack(self.outcome)

    patch.setattr(InFlightRequest, "closed_spider", wrong)


def start_again(patch: pytest.MonkeyPatch) -> None:
    """Take what ``start()`` yields for new in each run."""
    patch.setattr(Starting, "judge", lambda *_, **__: StartVerdict(False, True))


@pytest.mark.parametrize(
    ("wrong", "what", "how"),
    [
        (durable_before_its_page, "doubled", {}),
        (durable_before_its_page, "doubled", {"kills": 0, "stops": 4}),
        (done_before_its_parts, "missing", {}),
        (done_before_its_parts, "missing", {"kills": 0, "stops": 4}),
        (answer_without_a_page, "doubled", {}),
        (redirect_to_a_known_page, "doubled", {"kills": 0, "stops": 0}),
        (retry_checked_as_a_link, "missing", {"kills": 0, "stops": 0}),
        (output_without_its_page, "doubled", {"kills": 0, "stops": 0}),
        (closed_without_output, "missing", {"kills": 0, "stops": 0}),
        (closed_with_output, "doubled", {"kills": 0, "stops": 0}),
        (start_again, "doubled", {"kills": 0, "stops": 4}),
    ],
)
def test_a_judge_sees(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[pytest.MonkeyPatch], None],
    what: str,
    how: dict[str, int],
) -> None:
    monkeypatch.setattr(Frontier, "push", Frontier.push)  # and put back at the end
    wrong(monkeypatch)
    found = (judged(seed, tmp_path / str(seed), **how) for seed in range(CONTROLS))
    seen = (one for one in found if getattr(one, what))
    assert len([*islice(seen, ENOUGH)]) == ENOUGH


# Pages that do not end


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = Engine(tmp_path / "job", BareSession(lambda _: "a"), lambda: 0.0)
    yield engine
    engine.outcomes.close()
    engine.frontier.seen.close()


def begun(engine: Engine) -> InFlightRequest:
    """Hand out the next request."""
    entry = engine.next()
    assert entry is not None
    return engine.registry.add(Request("data:,"), entry)


def asked(engine: Engine, page: InFlightRequest | None, count: int = 1) -> None:
    """Let a page ask for requests with ``dont_filter``; None: plain ones."""
    for number in range(count):
        request = Request(f"data:,{number}", dont_filter=page is not None)
        engine.take(Accepted(request, SentRequest("a", 0, b"payload"), page))


def written(engine: Engine) -> int:
    """Return how many requests the next checkpoint leaves in the store."""
    for send in engine.checkpoint.steps():
        send()
    assert engine.frontier.store is not None
    return sum(map(len, pending_requests(engine.frontier.store)))


@pytest.mark.parametrize("name", ["MOST_OF_PAGE", "MOST_OF_ALL"])
def test_very_many_requests_of_a_page_are_saved_early(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    monkeypatch.setattr(registry, name, 5)
    asked(engine, None)
    page = begun(engine)
    asked(engine, page, 4)
    assert written(engine) == 1
    asked(engine, page, 3)
    assert written(engine) == 1 + 5
    assert engine.registry.volatile == 2
    asked(engine, page, 3)
    assert caplog.text.count("They are saved now") == 1
    page.ended()
    assert written(engine) == 10


def test_requests_of_a_callback_that_runs_for_long_are_saved_early(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are those of a child, whose page waits only for the child that is its part."""
    now = 0.0
    monkeypatch.setattr(registry, "monotonic", lambda: now)
    asked(engine, None)
    page = begun(engine)
    asked(engine, page)
    child = begun(engine)
    asked(engine, child)
    page.ended()
    assert not child.is_volatile, "its page is acknowledged"
    now = registry.LONGEST + 1
    engine.registry.save_old()
    assert written(engine) == 2


def test_a_request_of_no_page_outlives_a_refused_commit_and_is_there_once(
    engine: Engine,
) -> None:
    """So does an item of no page."""
    asked(engine, None)
    engine.session.take_item(None, [(0, b"item")])
    engine.read_again()
    assert [*engine.outcomes.lines()] == [(0, b"item")]
    assert written(engine) == 1
    engine.read_again()
    assert written(engine) == 1
    in_memory = Accepted(Request("data:,"), SentRequest("a", 0, b""), None)
    engine.take(in_memory._replace(is_part=True))
    assert engine.registry.with_parts, "a checkpoint waits for it"


def test_a_callback_waits_for_a_commit_but_not_for_ever(engine: Engine) -> None:
    asked(engine, None)
    page, loop = begun(engine), asyncio.new_event_loop()
    crawler: Any = SimpleNamespace(engine=SimpleNamespace(scraper=None), signals=None)
    options: Any = dict.fromkeys(("backpressure", "held", "is_empty"), bool)
    made: Any = Processing(crawler, lambda _: page, **options)
    made._call_spider = lambda *_: asyncio.to_thread(bool, page.waits_for_commit)
    assert loop.run_until_complete(asyncio.wait_for(made._call(0, page.request), 60))
    loop.close()
    written(engine)
    assert not page.waits_for_commit


def test_a_request_of_no_page_for_a_start_page_outlives_a_refused_commit(
    engine: Engine,
) -> None:
    """It uses the page, which is known, for another purpose."""
    engine.frontier.seen.add(b"page")
    assert written(engine) == 0
    sent = SentRequest("a", 0, b"payload", [(b"page", False), (b"again", False)])
    engine.take(Accepted(Request("data:,"), sent, None))
    engine.read_again()
    assert written(engine) == 1
    engine.outcomes.ack(Outcome(Accepted(Request("data:,"), sent, None)))
    engine.read_again()
    assert written(engine) == 1, "it was taken"


def test_after_a_refused_commit_the_counts_are_those_of_the_record(
    engine: Engine,
) -> None:
    """It may be that of another partition, which counts its own."""
    engine.failures.left = 5
    engine.checkpoint.begin_run()
    engine.read_again()
    assert engine.failures.left == 0
    assert engine.checkpoint.totals.runs == 1, "the run goes on"


def test_a_start_that_has_not_begun_is_not_begun_twice(engine: Engine) -> None:
    """As when a worker becomes the leader while its crawl is being opened."""
    begun: list[object] = []
    access: Any = engine.session.access
    access.go_through = begun.append
    engine.starting.restart()
    assert not begun


def test_a_page_that_closes_the_crawl_after_an_item_has_failed(engine: Engine) -> None:
    """So what it did not yield comes when it is tried again."""
    asked(engine, None)
    page = begun(engine)
    page.takes_item()
    page.closed_spider(ValueError("enough"), None)
    assert page.failed is not None
    assert page.failed.reason == "callback"


@pytest.mark.parametrize("broken", [False, True])
def test_a_run_that_leaves_an_item_of_start_is_incomplete(
    engine: Engine, broken: bool
) -> None:
    """Its pipeline may have asked for a request that was refused."""
    item = engine.registry.add_start_item(b"key")
    assert engine.status.left == 1
    item.broken = broken
    item.ended()
    assert engine.status.left == broken
    assert engine.knows(b"key", exact=True) != broken
