"""A job as one page: its numbers, its charts, and the errors of a browser."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.jobs import Verb
from support.monitored_jobs import monitored_job
from support.report_page import Page

from bloomdupe import BloomFilter
from bloomdupe.crawl.progress.history import History
from bloomdupe.store import files

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


def test_kills_differ_from_ended_and_running_runs(
    tmp_path: Path, report: Callable[[Path], Page]
) -> None:
    job = monitored_job(tmp_path)
    with BloomFilter.open(job / "bloomdupe") as seen:
        store = seen.share_store()
        assert store is not None
        history = History(store)
        history.begin_run(2)
        store.commit(history.prepare())
        history.end_run("shutdown")
        history.begin_run(3)
        store.commit(history.prepare())
    ways = ("killed", "shutdown", "running")
    owner = files.lock_owner(job / "bloomdupe")
    files.beat(owner, time.time() + 3_600)  # never too long ago
    texts = report(job).texts
    assert [text for text in texts if text in ways] == list(ways)
    assert any(text.startswith(f"Running (process {os.getpid()}).") for text in texts)
    owner.close()
    ended = [text for text in report(job).texts if text in ways]
    assert ended == ["killed", "shutdown", "killed"]
