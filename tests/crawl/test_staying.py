"""Crawls that stay open: they wait for URLs when nothing is pending."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from spiders.staying import Stays
from support.jobs import run as verb
from support.site import links

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.crawl import Crawl, Process
    from support.site import Pages, Site

WAITS = "Nothing is pending: the crawl waits for URLs (BLOOMDUPE_STAY)"


@pytest.fixture
def pages() -> Pages:
    return {"/a": links("/b"), "/b": "x", "/c": "x"}


@pytest.fixture
def crawl(crawl: Crawl, feed: None) -> Crawl:  # noqa: ARG001 - it adds a feed
    crawl.starts = ()
    crawl.settings["BLOOMDUPE_STAY"] = True
    return crawl


@pytest.fixture
def call(
    crawl: Crawl, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Return a function that calls a verb of the job in this process."""

    def called(name: str, *words: str, code: int = 0) -> str:
        monkeypatch.chdir(crawl.folder)
        answer = verb(capsys, name, crawl.engine.job, *words)
        assert answer.code == code, answer.err
        return answer.err if code else answer.out

    return called


def state_of(call: Callable[..., str]) -> Any:
    return json.loads(call("info", "--json"))["job"]["state"]


def until_waiting(process: Process, call: Callable[..., str]) -> None:
    process.until(lambda: state_of(call) == "waiting for URLs")


@pytest.mark.usefixtures("engine")
def test_a_crawl_waits_for_urls_until_it_is_stopped(
    crawl: Crawl, site: Site, call: Callable[..., str]
) -> None:
    process = crawl.start(Stays, BLOOMDUPE_PROGRESS_INTERVAL=0.05)
    process.until_logged(WAITS)
    until_waiting(process, call)
    assert "1 pending now" in call("add", f"{site.base}/a")
    process.until_requested("/b")
    assert "seen before: skipped" in call("add", f"{site.base}/b")
    options = ["--callback", "other", "--priority", "3"]
    call("add", f"{site.base}/c", *options)
    process.until_requested("/c")
    until_waiting(process, call)
    process.until_logged("3 pages (0/min), waiting for URLs")
    call("stop")
    run = process.wait()
    assert (run.status, run.finish_reason) == (0, "asked_to_stop")
    assert run.log.count(WAITS) == 1
    assert "The spider is idle" in run.log
    assert "Finished; 3 pages" in run.log
    assert state_of(call) == "finished"
    assert site.take() == ["/a", "/b", "/c"]
    assert crawl.items() == [{"page": "a"}, {"page": "b"}, {"other": "c"}]
    assert "there is nothing to stop" in call("stop", code=1)
    # The same command waits again.
    again = crawl.start(Stays)
    again.until_logged(WAITS)
    until_waiting(again, call)
    call("stop")
    assert again.wait().requested == []
