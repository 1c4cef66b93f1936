"""F26: other processes that a crawl has started outlive it, and hold nothing of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest
from spiders import in_turn
from spiders.forks import WAYS, Starting
from support.crawl import FEEDS, Crawl
from support.site import PAGES, Answer, Pages

pytestmark = pytest.mark.slow


@pytest.fixture
def pages() -> Pages:
    # A process that was forked has the connections, too, if they stay open.
    close = {"Connection": "close"}
    return {path: Answer(str(page), headers=close) for path, page in PAGES.items()}


@pytest.fixture
def crawl(crawl: Crawl) -> Iterator[Crawl]:
    crawl.settings["FEEDS"] = FEEDS
    yield crawl
    for pid in stayed(crawl):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def stayed(crawl: Crawl) -> list[int]:
    place = crawl.folder / "stay"
    return [int(line) for line in place.read_text().split()] if place.exists() else []


def assert_whole(crawl: Crawl) -> None:
    found = sorted(item["page"].removeprefix(crawl.site.base) for item in crawl.items())
    assert found == sorted(PAGES)


@pytest.mark.parametrize("way", WAYS)
def test_a_crawl_resumes_while_its_forks_live(crawl: Crawl, way: str) -> None:
    crawl.killed(Starting, stop="here started", WAY=way)
    (alive,) = stayed(crawl)
    os.kill(alive, 0)
    crawl.run(Starting)
    assert_whole(crawl)
    os.kill(alive, 0)


def test_a_second_crawl_in_a_process_that_has_forked(crawl: Crawl) -> None:
    """It has the same job, and nothing left to do."""
    done = subprocess.run(
        [sys.executable, in_turn.__file__, f"{crawl.site.base}/"],
        cwd=crawl.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "done\ndone\n"
    assert "in use" not in done.stderr
    assert_whole(crawl)
