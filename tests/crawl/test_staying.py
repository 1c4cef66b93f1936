"""Crawls that stay open: they wait for URLs when nothing is pending."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spiders.follow import Stays
from support.crawl import FEEDS, Crawl, Process
from support.engines import on_both_engines
from support.jobs import Verb
from support.judge import lines
from support.redis_server import RedisServer
from support.site import Site, links

import bloomdupe

DOCS = Path(bloomdupe.__file__).parent / "docs"
WAITS = "Nothing is pending: the crawl waits for URLs (BLOOMDUPE_STAY)"

PAGES = {"/a": links("/b"), "/b": "x", "/c": "x", "/d": "x"}
STARTS = ()
SETTINGS = {"BLOOMDUPE_STAY": True, "FEEDS": FEEDS}


@pytest.fixture
def call(
    crawl: Crawl, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Return a function that calls a verb of the job in this process."""

    def called(name: str, *words: str, code: int = 0) -> str:
        monkeypatch.chdir(crawl.folder)
        answer = verb(name, crawl.engine.job, *words)
        assert answer.code == code, answer.err
        # A verb that takes long also says how far it is.
        return answer.out if "--json" in words else answer.out + answer.err

    return called


def state_of(call: Callable[..., str]) -> Any:
    return json.loads(call("info", "--json"))["job"]["state"]


def until_waiting(process: Process, call: Callable[..., str]) -> None:
    process.until(lambda: state_of(call) == "waiting for URLs")


@on_both_engines
def test_a_crawl_waits_for_urls_until_it_is_stopped(
    crawl: Crawl, site: Site, call: Callable[..., str]
) -> None:
    process = crawl.start(Stays, BLOOMDUPE_PROGRESS_INTERVAL=0.05)
    process.until_logged(WAITS)
    until_waiting(process, call)
    call("add", f"{site.base}/a")
    process.until_requested("/b")
    call("add", f"{site.base}/b")
    options = ["--callback", "other", "--priority", "3"]
    call("add", f"{site.base}/c", *options)
    process.until_requested("/c")
    until_waiting(process, call)
    process.until_logged("3 pages (0/min), waiting for URLs")
    assert "1 process has ended\n" in call("stop", "--wait")
    assert state_of(call) == "finished"
    run = process.wait()
    assert (run.status, run.finish_reason) == (0, "asked_to_stop")
    assert run.log.count(WAITS) == 1
    assert "The spider is idle" in run.log
    assert "Finished; 3 pages" in run.log
    assert site.take() == ["/a", "/b", "/c"]
    expected = [{"page": "a"}, {"page": "b"}, {"other": "c"}]
    assert lines(crawl.items()) == lines(expected)
    assert "there is nothing to stop" in call("stop", code=1)
    # The same command waits again.
    again = crawl.start(Stays, BLOOMDUPE_PROGRESS_INTERVAL=0.05)
    again.until_logged(WAITS)
    until_waiting(again, call)
    call("stop")
    assert again.wait().requested == []


def test_collect_stores_what_waits_for_the_end_of_the_crawl(
    crawl: Crawl, site: Site, call: Callable[..., str]
) -> None:
    """The crawl does so in the end; every item is there once."""
    crawl.settings["FEEDS"] = {"all.json": {"format": "json"}}
    feed = ("--feed", "all.json")

    def items() -> list[str]:
        call("collect", *feed)
        return sorted(one["page"] for one in json.loads(Path("all.json").read_text()))

    process = crawl.start(Stays, starts=("/a",))
    process.until_requested("/b")
    until_waiting(process, call)
    process.until(lambda: items() == ["a", "b"])
    assert "FEEDS has no feed all.json" in call("collect", code=1)
    assert "have places of their own" in call("collect", "out", *feed, code=2)
    call("add", f"{site.base}/c")
    process.until(lambda: items() == ["a", "b", "c"])
    assert call("collect", *feed) == "All items are stored already.\n"
    call("add", f"{site.base}/d")
    process.until_requested("/d")
    call("stop")
    assert process.wait().status == 0
    assert items() == ["a", "b", "c", "d"]


def test_a_stop_ends_the_present_run_and_no_later_run(
    crawl: Crawl, call: Callable[..., str]
) -> None:
    """The rule of a run that was killed before it has read it says nothing later."""
    process = crawl.start(Stays)
    process.until_logged(WAITS)
    process.send(signal.SIGSTOP)
    call("stop")
    process.kill()
    assert "there is nothing to stop" in call("stop", code=1)
    again = crawl.start(Stays)
    again.until_logged(WAITS)
    until_waiting(again, call)
    assert "; the last run was killed" in again.log
    call("pause", "--slot", "x")
    again.until_logged("until `bloomdupe resume`: x")
    until_waiting(again, call)
    call("stop")
    assert again.wait().finish_reason == "asked_to_stop"
    third = crawl.start(Stays)
    until_waiting(third, call)
    call("stop")
    assert third.wait().finish_reason == "asked_to_stop"


def rights_of(words: str) -> list[str]:
    """Return the rights that the document names after some words."""
    section = (DOCS / "redis.md").read_text().partition("## Rights")[2]
    text = " ".join(section.partition("\n## ")[0].replace("```text", "`").split())
    found = re.search(f"{words}:? ?`+ ?([^`]+)`", text)
    assert found, words
    return found[1].split()


@pytest.mark.parametrize("engine", ["redis"], indirect=True)
@pytest.mark.slow
@pytest.mark.usefixtures("engine")
def test_the_rights_in_the_document_are_enough(
    crawl: Crawl, site: Site, redis_server: RedisServer, call: Callable[..., str]
) -> None:
    worker = rights_of("for a filter") + rights_of("A worker also needs")
    both = worker + rights_of("A user who only looks needs")
    with redis_server.client() as client:
        client.execute_command("ACL SETUSER", "works", "on", "nopass", *worker)
        client.execute_command("ACL SETUSER", "changes", "on", "nopass", *both)
    job = crawl.engine.job
    works = job.replace("unix://", "unix://works:x@")
    process = crawl.start(Stays, BLOOMDUPE_RETRY_FAILED=True, BLOOMDUPE_REDIS_URL=works)
    process.until_logged(WAITS)
    crawl.engine.job = job.replace("unix://", "unix://changes:x@")
    call("add", f"{site.base}/b", f"{site.base}/none", "https://a.invalid/")
    process.until(lambda: len(call("list", "--failed").splitlines()) == 2)
    until_waiting(process, call)
    call("block", "--slot", "b.invalid")
    call("stop", "--wait")
    assert process.wait().status == 0
    assert call("requeue", "--failed") == "2 pending now\n"
    assert call("requeue", f"{site.base}/b") == "1 pending now\n"
    assert call("drop", "--slot", "a.invalid") == "1 removed, 2 pending\n"
    crawl.engine.job = job
    crawl.finish(Stays, BLOOMDUPE_STAY=False, BLOOMDUPE_REDIS_URL=works)
