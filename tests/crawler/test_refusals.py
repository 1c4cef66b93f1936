"""A site or file that cannot be crawled is refused in one line, without any writing."""

from __future__ import annotations

import pytest
from support.project import Project


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-a", "max_pages=0"), "-a max_pages=0 is not a number of pages"),
        (("-s", "JOBDIR=scrapy.cfg"), "JOBDIR scrapy.cfg is not a folder"),
        (("-s", "JOBDIR=crawler"), "JOBDIR crawler holds another job"),
    ],
)
def test_bad_input(project: Project, args: tuple[str, ...], message: str) -> None:
    log = project.crawl(*args, code=2)
    (error,) = (line for line in log.splitlines() if "error:" in line)
    assert message in error
    assert "Traceback" not in log
    assert "Spider closed" not in log
    assert project.jobs() == []
