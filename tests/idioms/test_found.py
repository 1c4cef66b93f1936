"""Failures that F3 has found: an idiom, and the stop at which it failed.

And idioms that could take a file for each batch, page or request: a few are enough.
"""

from __future__ import annotations

import pytest
from judging import OfStops, stopped
from stock import expected
from support.stops import Stop
from table import load

pytestmark = pytest.mark.slow

COMMIT = Stop(point="after commit", nth=4)
FOUND = [
    # Changes after the last checkpoint were in JOBDIR/spider.state.
    ("idle_state", Stop(point="before prepare Cookies", nth=2, action="EDQUOT"), None),
    # The item came without its file, and the exit status was 0.
    ("files", Stop(point="before fsync .", nth=4, action="ENOSPC"), None),
    # With items of start() in a pipeline, Scrapy waits for ever when it closes.
    ("start_many_items", Stop(point="before pwrite items", nth=1, action="EIO"), None),
    ("one_a_piece", COMMIT, "many_files"),
    ("memory_tree", COMMIT, "many_files"),
]


def verdict_of(name: str, stop: Stop, without: str | None) -> OfStops:
    idiom = load()[name]
    return stopped(idiom, expected(idiom), [stop], without=without)


@pytest.mark.parametrize(("name", "stop", "without"), FOUND)
def test_nothing_is_lost_or_done_twice(
    name: str, stop: Stop, without: str | None
) -> None:
    verdict = verdict_of(name, stop, without)
    assert verdict.stopped
    assert verdict.complaints == []


def test_the_control_opens_too_many_files() -> None:
    """The control: a file that stays open for each batch is too much."""
    verdict = verdict_of("one_a_piece", COMMIT, "many_files_and_closing_them")
    assert any("Too many open files" in words for words in verdict.complaints)
