"""Four workers on a real site of 2,815 pages, judged by nginx's log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from spiders.workers import Real
from support.crawl import Crawl
from support.judge import lines
from support.real_sites import SITES, nginx

pytestmark = pytest.mark.slow

WORKERS = 4
LONG = 1_200
"""Seconds; only a process that hangs gets there."""


def test_every_page_of_a_real_site_once(
    crawl: Crawl, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    engine: Any = crawl.engine
    go = tmp_path / "go"
    with nginx("apache2") as (url, log):
        crawl.settings |= {
            "BLOOMDUPE_EXPECTED_URLS": 100_000,
            "BLOOMDUPE_REDIS_LEASE": 120,
            "METAREFRESH_ENABLED": False,
            "START": url,
            "GO": str(go),
        }
        workers = [crawl.start(Real) for _ in range(WORKERS)]
        # No page comes before each has a part.
        for worker in workers:
            worker.until_logged("This is worker")
        workers[0].until(lambda: len(engine.owners) == WORKERS)
        go.touch()
        runs = [worker.finish(LONG) for worker in workers]
        capfd.readouterr()
        oracle = SITES / "apache2.oracle.txt.xz"
        judge: list[str | Path] = [sys.executable, SITES / "compare.py", oracle, log]
        assert subprocess.run(judge, check=False).returncode == 0
        verdict = capfd.readouterr().out
        pages = [run.stats.get("downloader/response_count", 0) for run in runs]
        items = lines(crawl.items())
    whole = "oracle 2815 requested 2815 lost 0 extra 0 refetched 0"
    assert whole in verdict
    assert sum(pages) == 2_815
    assert min(pages) > 0
    # Scrapy gives the spider no page with another status.
    names = [f"downloader/response_status_count/{status}" for status in (200, 404)]
    given = sum(run.stats.get(name, 0) for run in runs for name in names)
    assert items.total() == given > 2_800
    assert set(items.values()) == {1}
