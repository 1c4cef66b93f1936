"""A job as one page: its numbers, its charts, and the errors of a browser."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from support.jobs import Verb
from support.monitored_jobs import add_points, changed, monitored_job, point
from support.report_page import Page, report_of

from bloomdupe.cli.main import main
from bloomdupe.jobs.job_on_disk import JobOnDisk
from bloomdupe.jobs.listed import FailedRequests
from bloomdupe.monitoring.report import failures
from bloomdupe.store import files

CHARTS = {"Rate", "Pending", "Hosts", "Failed", "Links", "Memory and disk"}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return monitored_job(tmp_path)


def test_a_link_or_a_pipe_is_not_replaced(
    verb: Verb, job: Path, tmp_path: Path
) -> None:
    link, pipe = tmp_path / "link.html", tmp_path / "pipe"
    link.symlink_to("report.html")
    os.mkfifo(pipe)
    with open(os.open(pipe, os.O_RDWR | os.O_NONBLOCK), "rb") as reader:
        for place in (link, pipe):
            assert verb("report", job, "-o", place).code == 0
        page = (tmp_path / "report.html").read_bytes()
        assert link.is_symlink()
        assert pipe.is_fifo()
        assert reader.read(len(page) // 2).startswith(b"<!DOCTYPE html>")


@pytest.fixture
def page(verb: Verb, job: Path) -> Page:
    return report_of(verb, job)


def test_the_numbers_are_those_of_info(verb: Verb, job: Path, page: Page) -> None:
    info = json.loads(verb("info", job, "--json").out)["job"]
    for name in ("pages", "items", "pending"):
        assert after(page, name, 2) == [name, f"{info[name]:,}"]
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


def test_hosts_have_pages_bytes_failures_and_pending_requests(page: Page) -> None:
    shown = after(page, "a.example", 5, first="Hosts")
    assert shown == ["a.example", "5", "-", "100", "150.0 kB"]
    shown = after(page, "b.example", 5, first="Hosts")
    assert shown == ["b.example", "1", "3", "-", "-"]
    rest = after(page, "(not counted by host)", 3)
    assert rest == ["(not counted by host)", "1,100", "1.6 MB"]


def test_failures_are_grouped(page: Page) -> None:
    failures = "Failures: 4 requests"
    assert not any("RETRY_FAILED" in text for text in page.texts)  # they are gone
    groups = after(page, "3", 8, first=failures)
    assert groups[:3] == ["3", "HTTP 404", "b.example"]
    assert groups[5:] == ["1", "HTTP 404", "c.example"]


def test_the_price_of_a_second_callback_is_named(job: Path) -> None:
    view = JobOnDisk(str(job)).read()
    assert "come twice" not in "".join(failures(view))
    late = [one._replace(reason="pipeline") for one in view.failed.requests]
    view = changed(view, failed=FailedRequests(late))
    assert "come twice" in "".join(failures(view))


def test_kills_differ_from_ended_and_running_runs(verb: Verb, job: Path) -> None:
    add_points(job, [point(61, 2), point(62, 2, how="shutdown"), point(63, 3)])
    ways = ("killed", "shutdown", "running")
    owner = files.lock_owner(job / "bloomdupe")
    files.write_heartbeat(owner, time.time() + 3_600)  # never too long ago
    texts = report_of(verb, job).texts
    assert [text for text in texts if text in ways] == list(ways)
    assert any(text.startswith(f"Running (process {os.getpid()}). ") for text in texts)
    owner.close()
    ended = [text for text in report_of(verb, job).texts if text in ways]
    assert ended == ["killed", "shutdown", "killed"]


def test_a_job_without_history_has_a_report_without_lines(
    verb: Verb, tmp_path: Path
) -> None:
    page = report_of(verb, monitored_job(tmp_path, history=False))
    assert not page.charts.keys() & CHARTS
    assert any("There are no charts" in text for text in page.texts)


def test_a_page_goes_to_standard_output_as_it_is(
    job: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(job), "-o", str(page)]) == 0
    capfdbinary.readouterr()
    assert main(["report", str(job), "-o", "-"]) == 0
    words, *_ = Page(capfdbinary.readouterr().out.decode()).texts
    assert words == Page(page.read_text("utf-8")).texts[0]


def test_a_place_that_cannot_be_written_is_refused(
    verb: Verb, job: Path, tmp_path: Path
) -> None:
    answer = verb("report", job, "-o", tmp_path / "no" / "page.html")
    assert answer.code == 1  # it might be written another time
    assert "No such file or directory" in answer.err
