"""A real web site on nginx: interrupted, resumed, and judged by nginx's log."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from spiders.interrupted import interrupted_at
from support.harness import STOCK
from support.real_sites import SITES, nginx

if TYPE_CHECKING:
    from pathlib import Path

    from support.harness import Project

pytestmark = pytest.mark.slow


def test_a_real_site_interrupted_in_the_middle(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    with nginx("python3") as (url, log):
        code, output = project.crawl("-a", f"url={url}", *interrupted_at(50))
        assert code == 0, output
        assert "not finished (shutdown)" in output
        code, output = project.crawl("-a", f"url={url}")
        assert code == 0, output
        capfd.readouterr()
        oracle = SITES / "python3.oracle.txt.xz"
        judge: list[str | Path] = [sys.executable, SITES / "compare.py", oracle, log]
        assert subprocess.run(judge, check=False).returncode == 0
    verdict = capfd.readouterr().out
    assert "oracle 528 requested 528 lost 0 extra 0 refetched 0" in verdict


def test_a_crawl_of_scrapys_moves_over_in_the_middle(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    """Stock Scrapy begins, is stopped, and bloomdupe continues its crawl."""
    with nginx("python3") as (url, log):
        job = ("-a", f"url={url}", "-s", "JOBDIR=job")
        half = ("-s", "CLOSESPIDER_PAGECOUNT=200")
        code, output = project.crawl(*job, *half, *STOCK)
        assert code == 0, output
        moved = subprocess.run(
            f"{sys.executable} -m scrapy bloomdupe import job --spider site".split(),
            cwd=project.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "requests pending now" in moved.stdout
        code, output = project.crawl(*job)
        assert code == 0, output
        assert "the last run ended: imported" in output
        capfd.readouterr()
        oracle = SITES / "python3.oracle.txt.xz"
        judge: list[str | Path] = [sys.executable, SITES / "compare.py", oracle, log]
        subprocess.run(judge, check=False)
    verdict = capfd.readouterr().out
    # Scrapy does not mark start pages; this page is fetched again at every resume.
    assert "oracle 528 requested 528 lost 0 extra 0 refetched" in verdict
    assert int(verdict.split("refetched ")[1].split()[0]) <= 1, verdict
