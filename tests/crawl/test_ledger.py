"""The ledger of failures in real crawls: who is in it, and who leaves it."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings
from support.harness import wait_for
from support.page_server import page_server
from support.small_site import JOB, Site

from bloomdupe import BloomFilter
from bloomdupe.cli import main as cli
from bloomdupe.crawl.leases.failure import Failure
from bloomdupe.errors import SettingError
from bloomdupe.rescue.repair import repair
from bloomdupe.settings import JobSettings
from bloomdupe.store.check import verify
from bloomdupe.store.format import FAILURES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPIDERS = """
import os, signal
import scrapy
from scrapy.exceptions import CloseSpider, DropItem, IgnoreRequest


class Follow(scrapy.Spider):
    name = "follow"

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)


class Wrong(scrapy.Spider):
    # Goes wrong in many ways; each page says in which.
    name = "wrong"
    handle_httpstatus_list = [410]
    custom_settings = {
        "ITEM_PIPELINES": {"spiders.Pipeline": 1},
        "DOWNLOADER_MIDDLEWARES": {"spiders.Refuses": 1},
        "DOWNLOAD_TIMEOUT": 20,
    }

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            callback = "break_" if "break" in href else "parse"
            errback = "fail" if "fail" in href else None
            errback = "raise_" if "raise" in href else errback
            yield response.follow(
                href,
                callback=getattr(self, callback),
                errback=errback and getattr(self, errback),
            )
        yield {"url": response.url}

    async def break_(self, response):
        yield {"url": response.url}
        raise RuntimeError("half way")

    def fail(self, failure):
        yield {"url": failure.request.url}

    def raise_(self, failure):
        raise ZeroDivisionError("errback")


class Pipeline:
    def process_item(self, item, spider):
        if "item" in item["url"]:
            raise KeyError("no price")
        if "drop" in item["url"]:
            raise DropItem("not wanted")
        return item


class Refuses:
    def process_request(self, request, spider):
        if "ignored" in request.url:
            raise IgnoreRequest("on purpose")
        if "lost" in request.url:
            raise TimeoutError("too slow")


class KilledAtOnce(Wrong):
    # After the first checkpoint, and before the first request.
    async def start(self):
        os.kill(os.getpid(), signal.SIGKILL)
        yield
"""

LINKS = [
    "404", "410", "fail404", "raise_fail404", "lost", "fail_lost", "ignored", "break",
    "item", "drop", "fine", "moved",
]  # fmt: skip


@pytest.fixture
def pages() -> dict[str, str]:
    return {
        "/": "".join(f"<a href='/{name}'>x</a>" for name in LINKS),
        "/410": "!410 Gone: yes",
        **dict.fromkeys(("/break", "/item", "/drop", "/fine"), "a page"),
        "/moved": "-> /nowhere",
    }


@pytest.fixture
def site(tmp_path: Path, pages: dict[str, str]) -> Iterator[Site]:
    (tmp_path / "spiders.py").write_text(SPIDERS)
    with page_server(pages) as (base, requested):
        yield Site(tmp_path, base, requested)


def failures(site: Site) -> dict[str, Failure]:
    """Read the ledger of a job, by path."""
    with BloomFilter.open(site.folder / "job/bloomdupe", readonly=True) as seen:
        assert seen._store is not None
        with seen._store.snapshot() as snapshot:
            found = [Failure.unpacked(data) for _, data in snapshot.failures()]
    return {failure.url.removeprefix(site.base): failure for failure in found}


def reasons(site: Site) -> dict[str, str]:
    return {path: failure.reason for path, failure in failures(site).items()}


WRONG = {
    "/404": "status",
    "/fail404": "status",
    "/raise_fail404": "errback",
    "/lost": "timeout",
    "/fail_lost": "timeout",
    "/break": "callback",
    "/item": "pipeline",
    "/nowhere": "status",
}


@pytest.mark.parametrize("direct", [1, 0])
def test_what_gives_up_is_in_the_ledger_and_nothing_else(
    site: Site, direct: int
) -> None:
    stats = site.crawl("Wrong", JOB, f"BLOOMDUPE_DIRECT_OUTPUT={direct}")
    assert reasons(site) == WRONG
    assert stats["bloomdupe/failed"] == len(WRONG)
    said = "8 requests have failed and not succeeded since (3 status, 2 timeout, "
    assert said in stats["log"]
    assert "`bloomdupe list job --failed` names them" in stats["log"]
    found = failures(site)
    assert found["/404"].status == 404
    assert found["/404"].parent == f"{site.base}/"
    assert found["/404"].times == 1
    assert found["/item"].status == 200
    assert "no price" in found["/item"].detail
    assert "half way" in found["/break"].detail
    assert "ZeroDivisionError" in found["/raise_fail404"].detail
    assert "404" in found["/raise_fail404"].detail
    assert found["/lost"].status is None
    totals, problems = verify(site.folder / "job/bloomdupe")
    assert problems == []
    assert totals["failures"] == len(WRONG)


def test_failed_requests_are_taken_up_again_and_leave_when_they_succeed(
    site: Site, pages: dict[str, str]
) -> None:
    site.crawl("Wrong", JOB)
    site.take()
    log = site.crawl("Wrong", JOB)["log"]
    assert site.take() == []
    assert f"{len(WRONG)} requests of this job have failed so far" in log
    pages |= {"/404": "<a href='/new'>x</a>", "/new": "a page"}
    stats = site.crawl("Wrong", JOB, "BLOOMDUPE_RETRY_FAILED=404,pipeline")
    asked = {"/404", "/fail404", "/item", "/nowhere", "/raise_fail404"}
    assert sorted(site.take()) == sorted([*asked, "/new"])
    assert stats["bloomdupe/retried_failures"] == len(asked)
    assert stats["finish_reason"] == "finished"
    found = failures(site)
    assert found.keys() == WRONG.keys() - {"/404"}
    times = {path: found[path].times for path in found}
    assert times == {path: 2 if path in asked else 1 for path in times}
    assert not any(failure.waiting for failure in found.values())


def test_exhausted_retries_begin_anew_when_taken_up(site: Site) -> None:
    retried = ("RETRY_ENABLED=1", "RETRY_TIMES=1", "RETRY_HTTP_CODES=404")
    for run in (1, 2):
        site.crawl("Wrong", JOB, *retried, "BLOOMDUPE_RETRY_FAILED=1", starts=("/x",))
        assert site.take() == ["/x"] * 2
        assert failures(site)["/x"].times == run


def test_what_is_blocked_is_not_taken_up(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    again = (JOB, "BLOOMDUPE_RETRY_FAILED=1")
    site.crawl("Wrong", *again, starts=("/x", "/y"))
    site.take()
    assert cli.main(["block", str(site.folder / "job"), "--pattern", "/x$"]) == 0
    stats = site.crawl("Wrong", *again, starts=())
    assert site.take() == ["/y"]
    assert stats["bloomdupe/retried_failures"] == 1
    assert stats["bloomdupe/dropped_blocked"] == 1
    assert failures(site).keys() == {"/x", "/y"}
    assert "blocked: pattern" in capsys.readouterr().out


def test_what_was_taken_up_is_not_taken_up_again_after_a_kill(site: Site) -> None:
    again = (JOB, "BLOOMDUPE_RETRY_FAILED=1")
    site.crawl("Wrong", *again, starts=("/x",))
    process = site.start("KilledAtOnce", *again, starts=("/x",))
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert failures(site)["/x"].waiting
    site.take()
    site.crawl("Wrong", *again, starts=("/x",))
    assert site.take() == ["/x"]
    assert failures(site)["/x"].times == 2


def test_no_failure_is_lost_by_kills(site: Site, pages: dict[str, str]) -> None:
    missing = {f"/no{n}" for n in range(60)}
    links = [*sorted(missing), *(f"/yes{n}" for n in range(60))]
    pages["/"] = "".join(f"<a href='{link}'>x</a>" for link in links)
    pages |= dict.fromkeys(links[60:], "a page")
    slowly = ("DOWNLOAD_DELAY=0.01", "BLOOMDUPE_CHECKPOINT_INTERVAL=0.02")
    for asked in (30, 90):
        process = site.start("Wrong", JOB, *slowly)
        wait_for(lambda asked=asked: len(site.requested) > asked, process)  # type: ignore[misc]
        process.kill()
        process.communicate(timeout=60)
    site.crawl("Wrong", JOB)
    assert set(links) <= set(site.requested)
    found = failures(site)
    assert found.keys() == missing
    again = {path for path in missing if site.requested.count(path) > 1}
    assert {path for path in missing if found[path].times > 1} <= again


def test_the_oldest_failures_leave_when_there_are_too_many(site: Site) -> None:
    settings = (JOB, "BLOOMDUPE_MAX_FAILURES=2", "CONCURRENT_REQUESTS=1")
    site.crawl("Wrong", *settings)
    assert len(failures(site)) == 2
    with BloomFilter.open(site.folder / "job/bloomdupe", readonly=True) as seen:
        assert (seen.record("crawl") or {})["failures_left"] == len(WRONG) - 2
    site.crawl("Wrong", *settings, "BLOOMDUPE_RETRY_FAILED=1")
    with BloomFilter.open(site.folder / "job/bloomdupe", readonly=True) as seen:
        assert (seen.record("crawl") or {})["failures_left"] == len(WRONG) - 2


@pytest.mark.parametrize(
    ("start", "settings"), [("/fine", ()), ("/x", ("BLOOMDUPE_MAX_FAILURES=0",))]
)
def test_there_is_no_ledger_without_need(
    site: Site, start: str, settings: tuple[str, ...]
) -> None:
    site.crawl("Wrong", JOB, *settings, starts=(start,))
    assert "failures" not in verify(site.folder / "job/bloomdupe")[0]


def test_a_lost_ledger_is_named_and_a_repaired_store_has_it(site: Site) -> None:
    site.crawl("Wrong", JOB)
    store, new = site.folder / "job/bloomdupe", site.folder / "new"
    repaired = repair(store, new)
    assert repaired.saved["failures"] == len(WRONG)
    assert repaired.lost == []
    with BloomFilter.open(new) as seen:
        inside: Any = seen._store
        with inside._env.begin(write=True) as txn:
            txn.drop(inside._databases[FAILURES], delete=False)
    assert any("failures" in problem for problem in verify(new)[1])


@pytest.mark.parametrize(
    ("value", "reasons"),
    [
        (False, None), ("0", None), (None, None), ("False", None), ([], None),
        (True, ()), ("1", ()), ("timeout", ("timeout",)),
        (["dns", 503], ("dns", "503")), (" Status, 404", ("status", "404")),
    ],
)  # fmt: skip
def test_reasons_are_read(value: object, reasons: object) -> None:
    settings = Settings({"BLOOMDUPE_RETRY_FAILED": value})
    assert JobSettings.read(settings).retry_failed == reasons


@pytest.mark.parametrize("value", ["often", "50", "timeout;dns", 2, {"a": 1}])
def test_other_reasons_are_refused(value: object) -> None:
    with pytest.raises(SettingError, match=r"BLOOMDUPE_RETRY_FAILED.*timeout"):
        JobSettings.read(Settings({"BLOOMDUPE_RETRY_FAILED": value}))


@pytest.mark.parametrize("value", [-1, "many", 1.5, True])
def test_another_limit_is_refused(value: object) -> None:
    with pytest.raises(SettingError, match="BLOOMDUPE_MAX_FAILURES"):
        JobSettings.read(Settings({"BLOOMDUPE_MAX_FAILURES": value}))


def test_a_failure_comes_back_as_it_was() -> None:
    failure = Failure(
        "http://a/\udc80", "timeout", None, "x", 3, 1.5, None, True, "a", -1, b"\x90"
    )
    assert Failure.unpacked(failure.packed()) == failure
    assert json.dumps(failure[:5])
