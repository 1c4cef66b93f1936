"""``report`` of a crawl on Redis: its figures, and the charts that it cannot have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from scrapy import Request
from support.jobs import run
from support.report_page import Page
from support.shared_data import needs_package
from support.standing_crawl import StandingCrawl, lines_of_start, offer_of
from support.waiting import until

from bloomdupe.crawl.engines.on_redis.shared_look import SharedLook


@pytest.fixture
def report(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[], Page]:
    needs_package("matplotlib")

    def write() -> Page:
        answer = run(capsys, "report", url, "-o", tmp_path / "report.html")
        assert answer.code == 0, answer.err
        return Page((tmp_path / "report.html").read_text("utf-8"))

    return write


def test_the_numbers_are_those_of_info(
    url: str, report: Callable[[], Page], capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = StandingCrawl(url)
    crawl.fill(20, 30)
    crawl.offer(lines_of_start(b"0 a\n"))
    crawl.lease("one", 50)
    crawl.settle("one", 20)
    look = SharedLook(crawl.workers["one"], 5, 0).look
    first = look(now=True)
    assert first is not None
    until(lambda: crawl.workers["one"].look(5).now > first.time)  # in milliseconds
    look(now=True)
    page = report()
    info = json.loads(run(capsys, "info", url, "--json").out)["job"]
    for name, figure in (
        ("pages", "pages"), ("pending", "pending"), ("active hosts", "slots"),
        ("in progress", "leased"), ("partitions", "partitions"),
        ("output to collect", "output_entries"),
    ):  # fmt: skip
        at = page.texts.index(name)
        assert page.texts[at : at + 2] == [name, f"{info[figure]:,}"]
    of_looks = {"Rate", "Pending", "Hosts over time", "Failed", "Links", "Memory"}
    assert page.charts.keys() == {*of_looks, "Status codes"}
    assert all(page.charts.values())
    assert page.scripts == []
    assert "Hosts" in page.texts
    assert any(
        text.startswith("Running (2 workers): 20 pages, ") for text in page.texts
    )
    assert {"Runs", "running"} <= {*page.texts}


def test_a_crawl_that_has_not_begun_and_a_finished_crawl(
    url: str, report: Callable[[], Page]
) -> None:
    crawl = StandingCrawl(url)
    crawl.fill(3, 3)
    crawl.close()
    said = "Not begun: 9 pending on 3 hosts. It begins with the first run."
    assert said in report().texts  # as if it were imported
    crawl = StandingCrawl(url)
    crawl.work_off()
    crawl.close()
    page = report()
    assert "Finished: 9 pages." in page.texts
    assert "Hosts" in page.texts
    assert "Failed requests" not in page.texts
    crawl = StandingCrawl(url)
    crawl.fill(3, 4)
    crawl.close()
    assert any("no worker is alive" in text for text in report().texts)


def test_nothing_from_the_web_becomes_part_of_the_page(
    url: str, tmp_path: Path, report: Callable[[], Page]
) -> None:
    bad = "<script>alert(1)</script>&\"'"
    crawl = StandingCrawl(url)
    crawl.offer(offer_of(Request("https://a.example/"), bad))
    page = report()
    assert page.scripts == []
    assert any(bad in text for text in page.texts)
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "<script>alert" not in text
    assert not re.search(
        r'(?:src|href)="(?!data:,")', text.replace('xlink:href="#', "")
    )
