"""The contract of the engines: on disk and on Redis, beside a model in plain Python.

No site is asked. A spider works on the requests in the place of Scrapy, in any order.
Whatever happens, each request is settled once, with its output.
"""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from spiders.contract import Drives, expected

if TYPE_CHECKING:
    from support.crawl import Crawl

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("engine", "feed"),
    pytest.mark.parametrize("seed", range(3)),
]


def items(crawl: Crawl) -> Counter[str]:
    return Counter(item["item"] for item in crawl.items())


def test_all_requests_are_done_once(crawl: Crawl, seed: int) -> None:
    crawl.finish(Drives, SEED=seed)
    assert items(crawl) == expected()


def test_killed_workers_leave_nothing_undone_or_doubled(
    crawl: Crawl, seed: int
) -> None:
    for kill in (20 + 7 * seed, 40 + 11 * seed):
        crawl.run(Drives, status=-signal.SIGKILL, SEED=seed, KILL_AT=kill)
    crawl.finish(Drives, SEED=seed + 1)
    assert items(crawl) == expected()


def test_requests_that_break_off_are_done_in_the_next_run(
    crawl: Crawl, seed: int
) -> None:
    run = crawl.run(Drives, status=1, SEED=seed, BROKEN=4 + seed)
    assert run.finish_reason == "incomplete"
    crawl.finish(Drives, SEED=seed)
    assert items(crawl) == expected()
