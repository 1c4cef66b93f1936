"""Four workers on a real site of 16,372 pages, judged by nginx's log."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from spiders.workers import Real
from support.judge import lines
from support.real_sites import SITES, nginx

if TYPE_CHECKING:
    from pathlib import Path

    from support.crawl import Crawl

pytestmark = pytest.mark.slow

WORKERS = 4
LONG = 1_200
"""Seconds; only a process that hangs gets there."""


def test_every_page_of_a_real_site_once(
    crawl: Crawl, capfd: pytest.CaptureFixture[str]
) -> None:
    with nginx("fpdocs") as (url, log):
        crawl.settings |= {
            "BLOOMDUPE_EXPECTED_URLS": 100_000,
            "BLOOMDUPE_REDIS_LEASE": 120,
            "METAREFRESH_ENABLED": False,
            "START": url.replace("index.html", "fpctoc.html"),
        }
        workers = [crawl.start(Real) for _ in range(WORKERS)]
        runs = [worker.finish(LONG) for worker in workers]
        capfd.readouterr()
        oracle = SITES / "fpdocs.oracle.txt.xz"
        judge: list[str | Path] = [sys.executable, SITES / "compare.py", oracle, log]
        assert subprocess.run(judge, check=False).returncode == 0
        verdict = capfd.readouterr().out
        pages = [run.stats.get("downloader/response_count", 0) for run in runs]
        items = lines(crawl.items())
    whole = "oracle 16372 requested 16372 lost 0 extra 0 refetched 0"
    assert whole in verdict
    assert sum(pages) == 16_372
    assert min(pages) > 0
    assert items.total() == 16_372
    assert set(items.values()) == {1}
