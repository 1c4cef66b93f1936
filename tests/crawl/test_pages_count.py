"""Whatever a page yields counts when the page counts, however often a crawl is killed.

The model of :mod:`support.page_model` is the judge of the rule: see
:mod:`bloomdupe.crawl.in_flight.registry`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scrapy import Request
from support.page_model import Engine, judged
from support.repetition import slow_tests_run
from support.taken_out import waiting_for_pages

from bloomdupe.crawl.in_flight import registry
from bloomdupe.crawl.in_flight.registry import InFlightRegistry
from bloomdupe.crawl.in_flight.request import Accepted, InFlightRequest
from bloomdupe.frontier import frontier
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.pending_requests import count_pending

PROGRAMS = 2_000 if slow_tests_run() else 90
CONTROLS = 60
MEMORY = Path("/dev/shm")  # noqa: S108 - or each commit would wait for a disk


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture
def few_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nearly every request be read from the store."""
    monkeypatch.setattr(frontier, "MAX_LOADED", 3_000)
    monkeypatch.setattr(frontier, "MAX_HEAD", 1_500)


@pytest.mark.usefixtures("few_in_memory")
def test_nothing_is_lost_and_nothing_comes_twice(place: Path) -> None:
    killed = 0
    for seed in range(PROGRAMS):
        found = judged(seed, place / str(seed))
        assert not found.missing, f"seed {seed}: {found}"
        assert not found.doubled, f"seed {seed}: {found}"
        killed += found.kills
    assert killed > PROGRAMS


@pytest.mark.usefixtures("few_in_memory")
def test_refused_commits_lose_nothing_and_double_nothing(place: Path) -> None:
    refused = 0
    programs = PROGRAMS // 3  # each takes three times as long
    for seed in range(programs):
        found = judged(seed, place / str(seed), kills=1, refusals=10)
        assert not found.missing, f"seed {seed}: {found}"
        assert not found.doubled, f"seed {seed}: {found}"
        refused += found.refused
    assert refused > programs


def test_a_judge_sees_requests_that_are_durable_before_their_pages(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Frontier, "push", Frontier.push)  # and put back at the end
    waiting_for_pages()
    found = [judged(seed, place / str(seed)) for seed in range(CONTROLS)]
    assert sum(bool(one.doubled) for one in found) > CONTROLS // 4


def test_a_judge_sees_pages_that_do_not_wait_for_their_parts(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect = InFlightRegistry.expect_part

    def expected(
        self: InFlightRegistry, entry: object, *rest: object, **options: object
    ) -> None:
        expect(self, entry, None, *rest[1:], **options)  # type: ignore[arg-type]

    monkeypatch.setattr(InFlightRegistry, "expect_part", expected)
    found = [judged(seed, place / str(seed)) for seed in range(CONTROLS)]
    assert sum(bool(one.missing) for one in found) > CONTROLS // 8


# Pages that do not end


@pytest.fixture
def engine(place: Path) -> Iterator[Engine]:
    engine = Engine(place / "job", lambda: 0.0)
    yield engine
    engine.outcomes.close()
    engine.frontier.seen.close()


def begun(engine: Engine) -> InFlightRequest:
    """Hand out the next request."""
    entry = engine.next()
    return engine.registry.add(Request("data:,"), entry)


def asked(engine: Engine, page: InFlightRequest | None, count: int = 1) -> None:
    """Let a page ask for requests with ``dont_filter``; None: plain ones."""
    for number in range(count):
        request = Request(f"data:,{number}", dont_filter=page is not None)
        root = None if page is None else page.root
        engine.take(Accepted(request, b"payload", "a", page, root, []))


def written(engine: Engine) -> int:
    """Return how many requests the next checkpoint leaves in the store."""
    engine.checkpoint.commit()
    assert engine.frontier.store is not None
    return count_pending(engine.frontier.store)


@pytest.mark.parametrize(("name", "bound"), [("MOST_OF_PAGE", 5), ("MOST_OF_ALL", 5)])
def test_very_many_requests_of_a_page_are_saved_early(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    bound: int,
) -> None:
    monkeypatch.setattr(registry, name, bound)
    asked(engine, None)
    page = begun(engine)
    asked(engine, page, 4)
    assert written(engine) == 1
    asked(engine, page, 3)
    assert written(engine) == 1 + 5
    assert engine.registry.volatile == 2
    asked(engine, page, 3)
    assert caplog.text.count("They are saved now") == 1
    page.ended(complete=True)
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
    page.ended(complete=True)
    assert not child.is_volatile, "its page is acknowledged"
    now = registry.LONGEST + 1
    engine.registry.save_old()
    assert written(engine) == 2


def test_a_request_of_no_page_outlives_a_refused_commit_and_is_there_once(
    engine: Engine,
) -> None:
    asked(engine, None)
    engine.read_again()
    assert written(engine) == 1
    engine.read_again()
    assert written(engine) == 1


def test_a_page_that_is_left_drops_the_requests_that_wait_for_it(
    engine: Engine,
) -> None:
    asked(engine, None)
    page = begun(engine)
    asked(engine, page, 3)
    done, runs = begun(engine), begun(engine)
    done.ended(complete=True)
    page.ended(complete=False)
    assert engine.next() is None
    asked(engine, runs)
    runs.ended(complete=True)
    assert engine.next() is None
    assert written(engine) == 1
    assert engine.registry.volatile == 0
    assert engine.frontier.unacked == 1
