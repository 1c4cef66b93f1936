"""Retry-After: how it is read, and how long a slot is left alone."""

from __future__ import annotations

import time
from datetime import timezone
from email.utils import format_datetime, formatdate
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http import Response

from bloomdupe.crawl.later.backoff import LONGEST_HOLD, Backoff, seconds_of
from bloomdupe.crawl.later.clock import Clock

DAY = 86_400.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"0", 0),
        (b" 120 ", 120),
        (b"1" * 400, float("inf")),
        (b"", None),
        (b"-5", None),
        (b"1.5", None),
        ("\u0662".encode(), None),
        (b"soon", None),
        (b"Mon, 01 Jan 2020 00:00:00 GMT", 0),
        (b"Monday, 01-Jan-20 00:00:00 GMT", 0),
        (b"Mon Jan  1 00:00:00 2020", 0),
        (b"Mon, 01 Jan 0001 00:00:00 +2359", 0),
        (b"Mon, 01 Jan 2020 00:00:00 +99999999999999999999", None),
        (b"Mon, 01 Jan 2020 00:00:00 -9999", None),
        (b"Mon, 32 Jan 2020 00:00:00 GMT", None),
        (b"Mon, 01 Jan 99999 00:00:00 GMT", None),
    ],
)
def test_the_delay_of_a_header(value: bytes, seconds: float | None) -> None:
    assert seconds_of(value) == seconds


@pytest.mark.parametrize("usegmt", [True, False])
def test_a_date_is_so_many_seconds_away(now: float, usegmt: bool) -> None:
    value = formatdate(now + 100, usegmt=usegmt)
    assert seconds_of(value.encode()) == 100 - 0.25  # a date has whole seconds


pieces = st.sampled_from(
    [
        "Mon,", "Mon", "Monday,", "01", "31", "99", "Jan", "jan.", "2020", "20", "0001",
        "99999", "24:00:00", "23:59:60", "12.30.10", "GMT", "EST", "-0000", "+9999",
        "-99999999999999999999", "01-Jan-20", "9" * 5_000, "+", "-", ",", ":", ";",
        "(c)", "\t", "\0", "\xe9", "",
    ]
)  # fmt: skip
texts = st.builds(str.join, st.sampled_from(["", " "]), st.lists(pieces, max_size=9))


@given(st.binary() | texts.map(lambda text: text.encode("latin-1")))
@example(b"Mon, 01 Jan 2020 00:00:00 +99999999999999999999")
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


def backoff(holds: dict[str, float], clock: Clock) -> Backoff:
    made = Backoff(lambda _: "slot", lambda *_: -1.0)
    made.restore(holds, clock)
    return made


@pytest.mark.parametrize("moved", [-DAY, 0, DAY])
def test_a_hold_lasts_no_longer_than_was_left(now: float, moved: float) -> None:
    """However the clock was moved between two runs."""
    saved = now - moved
    left = backoff({"slot": saved + 100}, Clock(saved)).wait("slot", 0)
    assert left == (pytest.approx(100) if moved <= 0 else -1)


def test_a_hold_lasts_no_longer_than_the_limit(now: float) -> None:
    longest = pytest.approx(LONGEST_HOLD)
    holds = {"slot": now + DAY}
    assert backoff(holds, Clock(now)).wait("slot", 0) == longest
    asked = backoff({}, Clock(now))
    response = Response("http://a.example", status=503, headers={"Retry-After": "999"})
    asked.response_downloaded(response, Request("http://a.example"))
    assert asked.wait("slot", 0) == longest


@pytest.mark.usefixtures("now")
def test_a_stored_backoff_is_restored() -> None:
    first = backoff({}, Clock(None))
    response = Response("http://a.example", status=429, headers={"Retry-After": "50"})
    first.response_downloaded(response, Request("http://a.example"))
    record = first.prepare().entries
    second = backoff(record["holds"], Clock(None))
    assert second.wait("slot", 0) == pytest.approx(50, abs=0.001)
    assert second.wait("other", 0) == -1
