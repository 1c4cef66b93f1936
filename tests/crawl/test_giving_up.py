"""Failed requests of real crawls: they are recorded, retried and removed."""

from __future__ import annotations

import json
from typing import Any

from spiders.follow import Unstorable
from spiders.giving_up import AsksAgain, Copies, HalfWay, Lasting, Wrong
from support.crawl import Crawl
from support.engines import on_both_engines
from support.site import Answer, Page, Pages, Site, links

from bloomdupe.crawl.state.failures import Failure
from bloomdupe.store.format import QUEUE

LINKS = [
    "/404", "/410", "/fail404", "/raise_fail404", "/lost", "/fail_lost", "/ignored",
    "/break", "/item", "/drop", "/fine", "/moved",
]  # fmt: skip
AGAIN: dict[str, Any] = {"BLOOMDUPE_RETRY_FAILED": True}

PAGES: Pages = {
    "/": links(*LINKS),
    "/410": Answer("", 410),
    **dict.fromkeys(("/break", "/item", "/drop", "/fine"), "a page"),
    "/moved": "-> /nowhere",
    "/to_x": links("/x"),
}


def failures(crawl: Crawl) -> dict[str, Failure]:
    """Return the failed requests of a job, by path."""
    found = crawl.engine.failures(crawl.folder)
    return {failure.url.removeprefix(crawl.site.base): failure for failure in found}


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


@on_both_engines
def test_only_requests_that_gave_up_are_failed(crawl: Crawl) -> None:
    run = crawl.run(Wrong)
    found = failures(crawl)
    assert {path: failure.reason for path, failure in found.items()} == WRONG
    assert run.stats["bloomdupe/failed"] == len(WRONG)
    said = "8 requests have failed and not succeeded since (3 404, 2 timeout, "
    assert said in run.log
    shown = crawl.engine.job
    assert f"`bloomdupe list {shown} --failed` names them" in run.log
    listed = crawl.bloomdupe("list", shown, "--failed", "--json").splitlines()
    assert {json.loads(one)["reason"] for one in listed} == set(WRONG.values())
    assert found["/404"].status == 404
    assert found["/404"].parent == f"{crawl.site.base}/"
    assert found["/404"].times == 1
    assert found["/item"].status == 200
    assert "no price" in found["/item"].detail
    assert "half way" in found["/break"].detail
    assert "ZeroDivisionError" in found["/raise_fail404"].detail
    assert "404" in found["/raise_fail404"].detail
    assert found["/lost"].status is None


@on_both_engines
def test_failed_requests_are_retried_and_removed_on_success(
    crawl: Crawl, pages: dict[str, Page]
) -> None:
    crawl.run(Wrong)
    run = crawl.run(Wrong)
    assert run.requested == []
    pages |= {"/404": "-> /200", "/200": links("/new"), "/new": "a page"}
    run = crawl.run(Wrong, BLOOMDUPE_RETRY_FAILED="404,pipeline")
    asked = {"/404", "/fail404", "/item", "/nowhere", "/raise_fail404"}
    assert sorted(run.requested) == sorted([*asked, "/200", "/new"])
    assert run.stats["bloomdupe/retried_failures"] == len(asked)
    assert run.finish_reason == "finished"
    assert "retried: 5. BLOOMDUPE_RETRY_FAILED" in run.log
    found = failures(crawl)
    assert found.keys() == WRONG.keys() - {"/404"}
    times = {path: found[path].times for path in found}
    assert times == {path: 2 if path in asked else 1 for path in times}
    assert not any(failure.waiting for failure in found.values())


@on_both_engines
def test_a_start_request_of_a_new_round_is_not_retried_besides(crawl: Crawl) -> None:
    crawl.settings |= {"BLOOMDUPE_START_REQUESTS": "again", **AGAIN}
    for _ in range(2):
        assert crawl.run(Wrong, starts=("/404",)).requested == ["/404"]
    assert failures(crawl)["/404"].times == 1


def test_a_new_round_retries_links_with_the_meta_of_a_start_request(
    crawl: Crawl, pages: dict[str, Page]
) -> None:
    crawl.settings["BLOOMDUPE_START_REQUESTS"] = "again"
    for _ in range(2):
        crawl.run(Copies, starts=("/to_x",))
        assert failures(crawl).keys() == {"/x"}
    pages["/x"] = "a page"
    assert sorted(crawl.run(Copies, starts=("/to_x",), **AGAIN).requested) == [
        "/to_x", "/x",
    ]  # fmt: skip
    assert failures(crawl) == {}


def test_a_failed_start_request_of_a_round_that_was_killed_stays(
    crawl: Crawl, pages: dict[str, Page]
) -> None:
    crawl.settings |= {"BLOOMDUPE_START_REQUESTS": "again"}
    crawl.starts = ("/x",)
    pages["/x"] = ["a page", Answer("", 404)]
    crawl.run(Lasting)
    crawl.killed(Lasting, stop="here failed")
    assert crawl.run(Lasting).requested == []
    assert failures(crawl).keys() == {"/x"}


@on_both_engines
def test_a_retry_of_an_errback_is_no_other_request(
    crawl: Crawl, pages: dict[str, Page]
) -> None:
    pages |= {"/": links("/fail404"), "/fail404": [Answer("", 404), "a page"]}
    crawl.killed(AsksAgain, at_request=3)
    crawl.run(AsksAgain, **AGAIN)
    assert failures(crawl) == {}
    assert crawl.site.requested.count("/fail404") == 3


@on_both_engines
def test_blocked_failed_requests_are_not_retried(crawl: Crawl) -> None:
    crawl.run(Wrong, starts=("/x", "/y"), **AGAIN)
    job = crawl.engine.job
    crawl.bloomdupe("block", job, f"{crawl.site.base}/x")
    out = crawl.bloomdupe("requeue", job, "--failed", "--pattern", "/x$", code=1)
    assert out.startswith("0 pending now\n1 is blocked: ")
    run = crawl.run(Wrong, starts=(), **AGAIN)
    assert run.requested == ["/y"]
    assert run.stats["bloomdupe/retried_failures"] == 1
    assert run.stats["bloomdupe/dropped_blocked"] == 1
    assert failures(crawl).keys() == {"/x", "/y"}


@on_both_engines
def test_a_repeated_page_yields_everything_again(
    crawl: Crawl, pages: dict[str, Page]
) -> None:
    pages |= {"/x": "a page", "/child": "a page"}
    again: dict[str, Any] = {"BLOOMDUPE_RETRY_FAILED": '["callback"]'}
    for _ in range(2):
        run = crawl.run(HalfWay, starts=("/x",), **again)
        assert run.requested == ["/x", "/child"]
    assert failures(crawl)["/x"].times == 2


@on_both_engines
def test_a_failed_request_that_cannot_be_stored_is_listed_only(crawl: Crawl) -> None:
    crawl.run(Unstorable, starts=("/to_x",))
    assert failures(crawl)["/x"].payload is None
    refused = crawl.bloomdupe("requeue", crawl.engine.job, "--failed", code=1)
    assert "it could not be stored" in refused


@on_both_engines
def test_failed_requests_are_not_retried_twice_after_a_kill(crawl: Crawl) -> None:
    crawl.run(Wrong, starts=("/x",), **AGAIN)
    crawl.killed(Wrong, stop="after commit", starts=("/x",), **AGAIN)
    assert failures(crawl)["/x"].waiting
    assert crawl.run(Wrong, starts=("/x",), **AGAIN).requested == ["/x"]
    assert failures(crawl)["/x"].times == 2


@on_both_engines
def test_a_failed_request_is_known_when_its_retry_is_read_from_the_store(
    crawl: Crawl, site: Site, pages: dict[str, Page]
) -> None:
    """Each try has headers and values in ``meta`` that a middleware has set."""
    crawl.starts, pages["/x"] = ("/x",), Answer("", 503)
    options = {**AGAIN, "RETRY_ENABLED": True, "RETRY_TIMES": 1}
    crawl.run(Wrong, USER_AGENT="first", **options)
    site.hold_after(1)
    process = crawl.start(Wrong, USER_AGENT="second", **options)
    process.until_requested(2)
    process.until(
        lambda: any(
            b"retry_times" in bytes(request)
            for snapshot in crawl.engine.snapshots(crawl.folder)
            for _, request in snapshot.records(QUEUE)
        )
    )
    process.kill()
    site.release()
    crawl.run(Wrong, **options)
    assert failures(crawl)["/x"].times == 2
    pages["/x"] = "a page"
    run = crawl.run(Wrong, **options, USER_AGENT="last")
    assert site.log[-1].headers["User-Agent"] == "last"
    assert (run.stats["bloomdupe/failed"], failures(crawl)) == (0, {})


@on_both_engines
def test_no_failure_is_lost_by_kills(
    crawl: Crawl, site: Site, pages: dict[str, Page]
) -> None:
    missing = {f"/no{n}" for n in range(60)}
    fine = {f"/yes{n}": "a page" for n in range(60)}
    pages |= {"/": links(*(f"/{kind}{n}" for n in range(60) for kind in ("no", "yes")))}
    pages |= fine
    for _ in range(2):
        known = len(failures(crawl))
        site.hold_after(40)
        process = crawl.start(Wrong)
        process.until_requested(41)
        process.until(lambda known=known: len(failures(crawl)) > known)  # type: ignore[misc]
        process.kill()
        site.release()
    crawl.run(Wrong)
    assert missing | fine.keys() <= set(site.requested)
    found = failures(crawl)
    assert found.keys() == missing
    again = {path for path in missing if site.count[path] > 1}
    assert {path for path in missing if found[path].times > 1} <= again


@on_both_engines
def test_the_oldest_failures_leave_when_there_are_too_many(crawl: Crawl) -> None:
    few: dict[str, Any] = {"BLOOMDUPE_MAX_FAILURES": 2, "CONCURRENT_REQUESTS": 1}
    job = crawl.engine.job
    for _ in range(2):
        crawl.run(Wrong, **few, **AGAIN)
        assert len(failures(crawl)) == 2
        found = json.loads(crawl.bloomdupe("top", job, "--json"))
        assert found["failures_left"] == len(WRONG) - 2


def test_a_failure_comes_back_as_it_was() -> None:
    failure = Failure(
        "http://a/\udc80", "timeout", None, "x", 3, 1.5, None, True, "a", -1, b"\x90"
    )
    assert Failure.unpacked(failure.packed()) == failure
    assert json.dumps(failure[:5])
    far = failure._replace(priority=10**20)  # which the queue takes, too
    assert Failure.unpacked(far.packed()).priority == (1 << 63) - 1
