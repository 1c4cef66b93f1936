from __future__ import annotations

from pathlib import Path

import pytest
from support.crawl import Crawl
from support.project import Project, Sample
from support.shared_data import REPOSITORY


@pytest.fixture
def project(crawl: Crawl) -> Project:
    return Project(crawl)


@pytest.fixture
def sample(crawl: Crawl, tmp_path: Path) -> Sample:
    log = tmp_path / "access.log"
    program = REPOSITORY / "crawler" / "sample_site" / "__main__.py"
    server = crawl.start_command(str(program), "--log", str(log), "--pages", "100")
    server.until_logged("/\n")
    return Sample(server.log.strip(), log)
