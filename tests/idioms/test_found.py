"""Failures that F3 has found: an idiom, and the stop at which it failed.

And idioms that could take a file for each batch, page or request: a few are enough.
"""

from __future__ import annotations

from typing import Any

import pytest
from crawls import Stop
from judging import Verdict, stopped, undisturbed
from table import load

pytestmark = pytest.mark.slow

FEW_FILES = {"open_files": 64}
"""The soft limit of open files: a crawl has some 30; each item is one in two feeds."""
COMMIT = Stop(point="after commit", nth=4)
FOUND: list[tuple[str, Stop, dict[str, Any]]] = [
    # Changes after the last checkpoint were in JOBDIR/spider.state.
    ("idle_state", Stop(point="before prepare Cookies", nth=2, action="EDQUOT"), {}),
    # The item came without its file, and the exit status was 0.
    ("files", Stop(point="before fsync .", nth=4, action="ENOSPC"), {}),
    # With items of start() in a pipeline, Scrapy waits for ever when it closes.
    ("start_many_items", Stop(point="before pwrite items", nth=1, action="EIO"), {}),
    ("one_a_piece", COMMIT, FEW_FILES),
    ("memory_tree", COMMIT, FEW_FILES),
]


def verdict_of(name: str, stop: Stop, **options: Any) -> Verdict:
    idiom = load()[name]
    return stopped(idiom, undisturbed(idiom), [stop], **options)


@pytest.mark.parametrize(("name", "stop", "options"), FOUND)
def test_nothing_is_lost_or_done_twice(
    name: str, stop: Stop, options: dict[str, Any]
) -> None:
    verdict = verdict_of(name, stop, **options)
    assert verdict.stopped
    assert verdict.complaints == []


def test_the_control_opens_too_many_files() -> None:
    """The control: a file that stays open for each batch is too much."""
    verdict = verdict_of("one_a_piece", COMMIT, without="closing_files", **FEW_FILES)
    assert any("Too many open files" in words for words in verdict.complaints)
