"""A real web site on nginx: interrupted, resumed, and judged by nginx's log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from spiders.interrupted import interrupted_at
from support.harness import Project
from support.real_sites import SITES, nginx

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
