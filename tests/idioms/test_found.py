"""Failures that F3 has found: an idiom, and the stop at which it failed."""

from __future__ import annotations

import pytest
from crawls import Stop
from judging import stopped, undisturbed
from table import load

pytestmark = pytest.mark.slow

FOUND = {
    # Changes after the last checkpoint were in JOBDIR/spider.state.
    "idle_state": Stop(point="before prepare Cookies", nth=2, action="EDQUOT"),
    # The item came without its file, and the exit status was 0.
    "files": Stop(point="before fsync .", nth=4, action="ENOSPC"),
    # With items of start() in a pipeline, Scrapy waits for ever when it closes.
    "start_many_items": Stop(point="before pwrite items", nth=1, action="EIO"),
}


@pytest.mark.parametrize("name", FOUND)
def test_nothing_is_lost_or_done_twice(name: str) -> None:
    idiom = load()[name]
    model = undisturbed(idiom)
    verdict = stopped(idiom, model, [FOUND[name]])
    assert verdict.stopped
    assert verdict.complaints == []
