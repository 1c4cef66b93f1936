"""What F18 has found once: an idiom, and the stop at which it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from crawls import Stop
from judging import stopped, undisturbed
from table import load

if TYPE_CHECKING:
    from support.forks import Forks

pytestmark = pytest.mark.slow

FOUND = {
    # What came after the last checkpoint stood in JOBDIR/spider.state.
    "idle_state": Stop(point="before prepare Cookies", nth=2, action="EDQUOT"),
    # The item came without its file, and the exit status was 0.
    "files": Stop(point="before fsync .", nth=4, action="ENOSPC"),
    # With items of start() in a pipeline, Scrapy waits for ever when it closes.
    "start_many_items": Stop(point="before pwrite items", nth=1, action="EIO"),
}


@pytest.mark.parametrize("name", FOUND)
def test_nothing_is_lost_or_done_twice(name: str, forks: Forks) -> None:
    idiom = load()[name]
    model = undisturbed(idiom, forks)
    verdict = stopped(idiom, forks, model, [FOUND[name]])
    assert verdict.stopped
    assert verdict.complaints == []
