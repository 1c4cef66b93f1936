"""A job as one page: its numbers, its charts, and the errors of a browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.jobs import Verb
from support.monitored_jobs import monitored_job
from support.report_page import Page

CHARTS = {
    "Rate", "Pending", "Hosts over time", "Failed", "Links", "Memory and disk",
}  # fmt: skip


@pytest.fixture
def report(verb: Verb, tmp_path: Path) -> Callable[[Path], Page]:

    def write(job: Path) -> Page:
        answer = verb("report", job, "-o", tmp_path / "report.html")
        assert answer.code == 0, answer.err
        return Page((tmp_path / "report.html").read_text("utf-8"))

    return write


def test_the_numbers_are_those_of_info(
    verb: Verb, tmp_path: Path, report: Callable[[Path], Page]
) -> None:
    job = monitored_job(tmp_path)
    page = report(job)
    info = json.loads(verb("info", job, "--json").out)["job"]
    for name, figure in (
        ("pages", "pages"), ("items", "items"), ("pending", "pending"),
    ):  # fmt: skip
        assert after(page, name, 2) == [name, f"{info[figure]:,}"]
    assert after(page, "failed", 2) == ["failed", f"{sum(info['failed'].values())}"]
    assert page.charts.keys() == CHARTS
    assert all(page.charts.values())
    assert page.scripts == []
    assert "b.example" in page.texts  # a host


def after(page: Page, name: str, count: int, *, first: str = "") -> list[str]:
    """Return a text and those that follow it, after the text ``first``."""
    texts = [text for text in page.texts if text]
    at = texts.index(name, texts.index(first) if first else 0)
    return texts[at : at + count]
