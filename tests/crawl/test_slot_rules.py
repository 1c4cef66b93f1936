"""Slots: whether they may have a request, and what of that is stored."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timezone
from email.utils import format_datetime, formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloomdupe import BloomFilter
from bloomdupe.crawl.progress.watch import Watch
from bloomdupe.crawl.state.slot_rules import LONGEST_HOLD, seconds_of
from bloomdupe.frontier import slots
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.slot_state import (
    DELAY,
    PAUSED,
    PROBED,
    PROBING,
    RETRY_AFTER,
    Backoff,
    SlotState,
    backoff_of,
)
from bloomdupe.store.store import Part

DAY = 86_400.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"0", 0),
        (b" 120 ", 120),
        (b"1" * 400, float("inf")),
        (b"", None),
        (b"-5", None),
        ("\u0662".encode(), None),
        (b"soon", None),
        (b"Mon, 01 Jan 2020 00:00:00 GMT", 0),
        (b"Mon, 01 Jan 0001 00:00:00 +2359", 0),
        (b"Mon, 01 Jan 2020 00:00:00 +99999999999999999999", None),
        (b"Mon, 01 Jan 99999 00:00:00 GMT", None),
    ],
)
def test_the_delay_of_a_header(value: bytes, seconds: float | None) -> None:
    assert seconds_of(value) == seconds


@pytest.mark.parametrize("usegmt", [True, False])
def test_a_date_is_so_many_seconds_away(now: float, usegmt: bool) -> None:
    value = formatdate(now + 100, usegmt=usegmt)
    assert seconds_of(value.encode()) == 100 - 0.25  # a date has whole seconds


@given(st.binary())
def test_no_header_raises(value: bytes) -> None:
    seconds = seconds_of(value)
    assert seconds is None or seconds >= 0


@given(st.datetimes(timezones=st.just(timezone.utc)))
def test_every_date_is_read(date: Any) -> None:
    assert seconds_of(format_datetime(date, usegmt=True).encode()) is not None


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    """Stop both clocks; return the Unix time that they stop at."""
    stopped, ticks = int(time.time()) + 0.25, time.monotonic()
    monkeypatch.setattr(time, "time", lambda: stopped)
    monkeypatch.setattr(time, "monotonic", lambda: ticks)
    return stopped


NOW = 100.0
EXAMPLES: list[tuple[dict[str, Any], Backoff | None]] = [
    ({}, None),
    ({"paused": True}, Backoff(math.inf, PAUSED)),
    ({"held": 120.0}, Backoff(120.0, RETRY_AFTER)),
    ({"failures": 4}, None),  # not often enough
    ({"backoffs": 1, "until": 130.0, "reason": "HTTP 503"}, Backoff(130.0, "HTTP 503")),
    ({"backoffs": 1, "until": 99.0, "probe": True}, Backoff(NOW + PROBING, PROBED)),
    (
        {"backoffs": 1, "until": 99.0, "probe": True, "held": 109.0},
        Backoff(109.0, RETRY_AFTER),
    ),
    (
        {"backoffs": 1, "until": 130.0, "held": 120.0, "reason": "x"},
        Backoff(130.0, "x"),
    ),
    ({"backoffs": 4, "until": 130.0, "down": True}, None),
    ({"last": 99.0, "delay": 5.0}, Backoff(104.0, DELAY)),
]


@pytest.mark.parametrize(("given", "expected"), EXAMPLES)
def test_whether_a_slot_may_have_a_request(
    given: dict[str, Any], expected: Backoff | None
) -> None:
    options = {name: given[name] for name in ("paused", "delay") if name in given}
    state = SlotState()
    for name in given.keys() - options.keys():
        setattr(state, name, given[name])
    assert backoff_of(state, NOW, **options) == expected
    assert backoff_of(None, NOW, paused=bool(given.get("paused"))) == (
        expected if "paused" in given else None
    )


# What is stored


class Downloader:
    """As far as a frontier knows it."""

    has_delays = throttled = True

    def delay_of(self, name: str) -> float:
        return 2.5 if name == "paced" else 0.0

    def last_request_of(self, name: str) -> float:
        return 0.0


@contextmanager
def opened(path: Path, **given: Any) -> Iterator[Frontier]:
    with BloomFilter.open(path / "store", 1000) as seen:
        yield Frontier(seen, longest_backoff=LONGEST_HOLD, **given)


def held(frontier: Frontier, name: str) -> float:
    state = frontier.slots_of(name).state_of(name)
    return 0.0 if state is None else max(state.held, state.until) - time.time()


@pytest.mark.parametrize(
    ("moved", "given", "expected"),
    [(-DAY, 100, 100), (0, 100, 100), (DAY, 100, 0), (0, DAY, LONGEST_HOLD)],
)
def test_a_backoff_lasts_no_longer_than_was_left_and_than_the_limit(
    tmp_path: Path,
    now: float,
    moved: float,
    given: float,
    expected: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with opened(tmp_path, wall=lambda: now) as frontier:
        frontier.push("slot", 0, b"x")
        state = frontier.slots_of("slot").state("slot")
        state.held = state.until = now + given
        frontier.checkpoint()
    monkeypatch.setattr(time, "time", lambda: now + moved)
    with opened(tmp_path) as frontier:
        left = held(frontier, "slot")
    assert left == pytest.approx(expected)


states = st.fixed_dictionaries(
    {
        "pages": st.integers(0, 2**64 - 1),
        "delay": st.floats(0, 1e6),
        "held": st.floats(1, 1e12),
        "until": st.floats(1, 1e12),
        "last": st.floats(1, 1e12),
        "failures": st.integers(0, 2**32 - 1),
        "backoffs": st.integers(0, 2**32 - 1),
        "down": st.booleans(),
        "reason": st.text("aä\0☃"),  # of all characters, it needs a table first
    }
)


@given(states)
def test_a_state_is_read_as_it_was_written(given: dict[str, Any]) -> None:
    state = SlotState()
    for name, value in given.items():
        setattr(state, name, value)
    found = SlotState.read(state.packed())
    assert {name: getattr(found, name) for name in given} == given


def test_delays_of_the_downloader_stand_in_the_record(tmp_path: Path) -> None:
    downloader = Downloader()
    with opened(tmp_path, downloader=downloader) as frontier:
        for name in ("paced", "other"):
            frontier.push(name, 0, b"x")
        frontier.checkpoint()
    with opened(tmp_path, downloader=downloader) as frontier:
        state = frontier.slots_of("paced").state_of("paced")
        assert state is not None
        assert state.delay == 2.5
        assert frontier.slots_of("other").state_of("other") is None
    downloader.throttled = False  # then the settings have the delay
    with opened(tmp_path, downloader=downloader) as frontier:
        assert frontier.slots_of("paced").state_of("paced") is None


def test_the_slowest_slot_is_known_by_its_delay_and_its_requests() -> None:
    watch: Any = Watch.__new__(Watch)
    delays = SimpleNamespace(has_delays=True, delay_of={"a": 2.0, "b": 5.0}.get)
    slots = SimpleNamespace(backing_off=dict)
    watch._session = SimpleNamespace(access=delays, slots=slots)
    requests = {"a": 3, "b": 1}.items()
    watch._frontier = SimpleNamespace(pending_by_slot=lambda: requests)
    watch._slots_due = 0.0
    watch._sample_slots(complete=False)
    assert (watch._slowest, watch._largest) == (6.0, [*requests])


def test_a_state_that_has_changed_is_written_without_any_request(
    tmp_path: Path,
) -> None:
    """Those of the requests that it counts may be done, and marked elsewhere."""
    with opened(tmp_path) as frontier:
        found = []
        for pages in (0, 1):
            frontier.checkpoint(Part())
            found.append(frontier.changed)
            frontier.slots_of("a").state("a").pages = pages
            found.append(frontier.changed)
        assert found == [False, True] * 2


@pytest.mark.parametrize("stored", [False, True])
def test_states_of_slots_without_requests_are_bounded(
    tmp_path: Path, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "MOST_APART", 10)
    looks, lasts = Counter[str](), SlotState.lasts
    monkeypatch.setattr(
        SlotState, "lasts", lambda *given: looks.update("x") or lasts(*given)
    )
    with ExitStack() as stack:
        frontier = Frontier(BloomFilter(1000))
        if stored:
            frontier = stack.enter_context(opened(tmp_path))
        for number in range(400):
            state = frontier.slots_of(f"slot {number}").state(f"slot {number}")
            state.pages, state.failures = int(number % 8 == 1), 1
            if number % 5 == 4:
                frontier.checkpoint(Part())
        assert len(frontier.partitions[0].slots._detached) <= (15 if stored else 100)
        assert looks.total() < 1_000, "each is looked at a few times"
        for number in range(1, 400, 8):
            state = frontier.slots_of(f"slot {number}").state(f"slot {number}")
            assert state.pages == 1
