"""Changes of a job while its crawl runs: made once, even if a process is killed."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from typing import Any

import pytest
from spiders.follow import Follow, without_room
from support.crawl import Crawl, Process
from support.engines import Redis
from support.jobs import killed_after
from support.site import PAGES, Pages, Site, links

from bloomdupe import BloomFilter
from bloomdupe.crawl.changes.news import news_of
from bloomdupe.store.inbox import Inbox

SLOW: dict[str, Any] = {"CONCURRENT_REQUESTS": 1}
TAKEN_UP = "taken up by the running crawl: "


@pytest.fixture
def pages() -> Pages:
    return {**PAGES, "/new": links("/new1"), "/new1": "x"}


def begun(crawl: Crawl, **options: Any) -> Process:
    """Start a crawl in which /a is done, /b is in progress, and /c to /f are pending.

    The order of a slot is the oldest first, so that /a is next after the first page.
    """
    crawl.site.hold("/b")
    crawl.settings["SCHEDULER_DISK_QUEUE"] = "scrapy.squeues.PickleFifoDiskQueue"
    process = crawl.start(Follow, **SLOW, **options)
    process.until_requested("/b")
    process.until(lambda: crawl.durable_pages == 2)
    return process


@pytest.fixture
def running(crawl: Crawl) -> Process:
    return begun(crawl)


def inbox(crawl: Crawl) -> list[str]:
    return Inbox(crawl.store).names()


def test_a_running_crawl_drops_requests_and_answers(
    crawl: Crawl, site: Site, running: Process
) -> None:
    said = crawl.bloomdupe("drop", "job", "--pattern", "/[bcd]$")
    assert said.startswith(f"{TAKEN_UP}2 removed, ")
    assert said.endswith("1 in progress: these go on\n")
    # They stay seen.
    assert crawl.bloomdupe("drop", "job", "--pattern", "/[cd]$").startswith(
        f"{TAKEN_UP}0 removed"
    )
    assert inbox(crawl) == []
    site.release()
    running.finish()
    gone = {"/c", "/d", "/c1", "/d1"}
    assert Counter(site.requested) == Counter(PAGES.keys() - gone)
    assert "Everything is as it was written" in crawl.bloomdupe("verify", "job")


def test_a_running_crawl_obeys_a_rule_and_forgets_it(
    crawl: Crawl, site: Site, running: Process
) -> None:
    said = crawl.bloomdupe("block", "job", "--pattern", "[cde]1?$")
    assert said == f"{TAKEN_UP}3 removed\nblocked: pattern [cde]1?$\n"
    said = crawl.bloomdupe("block", "job", f"{site.base}/f1")
    assert said.startswith(f"{TAKEN_UP}0 removed\nblocked: pattern")
    crawl.bloomdupe("block", "job", f"{site.base}/f1", "--undo")
    log = crawl.bloomdupe("block", "job", "--slot", "x", "--undo", code=1)
    assert "there is no such rule: slot x" in log
    site.release()
    run = running.finish()
    gone = {f"/{name}{more}" for name in "cde" for more in ("", "1")}
    assert Counter(site.requested) == Counter(PAGES.keys() - gone)
    assert "pattern [cde]1?$" in crawl.bloomdupe("info", "job")
    assert run.stats["scheduler/enqueued"] == run.stats["scheduler/dequeued"] + 3


@pytest.mark.usefixtures("engine")
def test_a_rule_holds_while_a_crawl_runs(crawl: Crawl, site: Site) -> None:
    process = begun(crawl)
    job = crawl.engine.job
    rule = ["block", job, "--pattern", "/[cde]1?$"]
    said = crawl.bloomdupe(*rule, f"{site.base}/x", code=2)
    assert "each URL is a rule by itself" in said
    answer = json.loads(crawl.bloomdupe(*rule, "--json"))
    assert answer["rules"] == [{"pattern": "/[cde]1?$"}]
    # A worker on Redis has all of them at hand.
    assert answer["dropped"] + answer["in_progress"] == 3
    assert "pattern /[cde]1?$" in crawl.bloomdupe("info", job)
    process.until(lambda: "`bloomdupe block`" in process.log)
    site.release()
    process.finish()
    gone = {f"/{name}{more}" for name in "cde" for more in ("", "1")}
    assert Counter(site.requested) == Counter(PAGES.keys() - gone)
    said = crawl.bloomdupe(*rule, "--undo")
    assert said.endswith("removed\nNothing is blocked.\n")
    assert "there is no such rule" in crawl.bloomdupe(*rule, "--undo", code=1)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["redis"], indirect=True)
@pytest.mark.usefixtures("engine")
def test_workers_obey_a_rule_of_a_verb_that_was_killed(
    crawl: Crawl, site: Site
) -> None:
    """Any worker, also for a failed request that is pending again."""
    site.pages = {path: page for path, page in PAGES.items() if path != "/a"}
    process = begun(crawl)
    assert isinstance(crawl.engine, Redis)
    job, failures = crawl.engine.job, crawl.engine.failures
    process.until(lambda: failures(crawl.folder))
    assert crawl.bloomdupe("requeue", job, "--failed") == "1 pending now\n"
    rule = ["block", job, "--pattern", "/[a-e]1?$"]
    point = "bloomdupe.redis.open_frontier:OpenFrontier.change_rules"
    killed_after(point, 1, *rule, cwd=crawl.folder)
    process.until_logged("keeps requests out by 1 rule")
    other = crawl.start(Follow, **SLOW)
    other.until_logged("keeps requests out by 1 rule")
    site.release()
    for worker in (process, other):
        worker.finish()
    assert set(site.requested) == {"/", "/a", "/b", "/f", "/f1"}
    # It is listed again, because nothing repeats it any more.
    assert f"{site.base}/a\n" in crawl.bloomdupe("list", job, "--failed")


def test_a_running_crawl_adds_urls_and_repeats_pages(
    crawl: Crawl, site: Site, running: Process
) -> None:
    base = site.base
    said = crawl.bloomdupe("add", "job", f"{base}/new", f"{base}/c")
    assert said == f"{TAKEN_UP}1 pending now\n1 was seen before: skipped\n"
    refused = crawl.bloomdupe("add", "job", f"{base}/n", "--spider", "other", code=2)
    assert "is that of spider 'follow'" in refused
    words = ["requeue", "job", *(f"{base}/{name}" for name in ("a", "b", "c", "x"))]
    said = crawl.bloomdupe(*words, code=1)
    assert said.splitlines() == [
        f"{TAKEN_UP}1 pending now",
        "2 were pending already: not added",
        "1 was never seen: use `bloomdupe add`",
    ]
    site.release()
    running.finish()
    assert Counter(site.requested) == Counter([*PAGES, "/new", "/new1", "/a"])


def test_a_request_that_the_crawl_cannot_read_passes_the_rules(
    crawl: Crawl, running: Process
) -> None:
    """Its checkpoints go on, and it reports the request when its turn has come."""
    crawl.bloomdupe("block", "job", "--slot", "x")
    line = {"url": "https://a.example/", "callback": "is_missing"}
    (crawl.folder / "lines").write_text(json.dumps(line))
    said = crawl.bloomdupe("add", "job", "--from", "lines")
    assert said == f"{TAKEN_UP}1 pending now\n"
    running.kill()


def test_a_large_addition_is_a_single_line_of_the_log(
    crawl: Crawl, running: Process
) -> None:
    urls = [f"https://a.example/{number}" for number in range(2_500)]
    (crawl.folder / "lines").write_text("\n".join([*urls, *urls[:12]]))
    crawl.bloomdupe("add", "job", "--from", "lines")
    news = "Added by `bloomdupe add`: "
    running.until_logged(f"{news}2,500 requests, 12 known already\n")
    assert running.log.count(news) == 1
    running.kill()


@pytest.mark.parametrize(
    ("change", "answer", "news"),
    [
        (
            {"kind": "requeue"},
            {"taken_in": 1, "waited": 2, "unseen": 0, "blocked": 3},
            "Made pending again by `bloomdupe requeue`: 1 request, 2 pending already,"
            " 3 blocked",
        ),
        (
            {"kind": "drop"},
            {"dropped": 1_000, "in_progress": 1, "left": 7},
            "Removed by `bloomdupe drop`: 1,000 requests, 1 in progress, 7 left",
        ),
        (
            {"kind": "block", "undo": False},
            {"dropped": 4, "in_progress": 0, "left": 0, "rules": [{"slot": "x"}]},
            "Removed by `bloomdupe block`: 4 requests, 1 rule in all",
        ),
        (
            {"kind": "block", "undo": True},
            {"dropped": 0, "in_progress": 0, "rules": []},
            "Allowed again by `bloomdupe block --undo`: 0 rules in all",
        ),
        (
            {"kind": "pause", "slot": "x", "undo": True},
            {"paused": [], "pending": 9},
            "Let go on by `bloomdupe resume`: slot 'x', 9 pending",
        ),
    ],
)
def test_a_change_is_described_in_words(
    change: dict[str, Any], answer: dict[str, Any], news: str
) -> None:
    assert news_of(change, answer) == news


def test_failed_requests_are_repeated_while_the_crawl_runs(
    crawl: Crawl, site: Site
) -> None:
    site.pages = {path: page for path, page in PAGES.items() if path != "/a"}
    process = begun(crawl)
    site.pages = PAGES
    said = crawl.bloomdupe("requeue", "job", "--failed")
    assert said == f"{TAKEN_UP}1 pending now\n"
    said = crawl.bloomdupe("requeue", "job", "--failed")
    assert said.endswith("0 pending now\n1 was pending already: not added\n")
    site.release()
    process.finish()
    assert Counter(site.requested) == Counter([*PAGES, "/a"])
    assert crawl.bloomdupe("list", "job", "--failed") == ""


def test_a_slot_is_paused_and_resumed_also_over_a_kill(
    crawl: Crawl, site: Site, running: Process
) -> None:
    said = crawl.bloomdupe("pause", "job", "--slot", "127.0.0.1")
    assert said.splitlines() == [
        f"{TAKEN_UP}5 pending in this slot",
        "paused: slot 127.0.0.1",
    ]
    site.release()
    running.until(lambda: crawl.durable_pages == 3)
    assert site.requested == ["/", "/a", "/b"]
    running.kill()
    process = crawl.start(Follow, **SLOW, BLOOMDUPE_PROGRESS_INTERVAL=0.05)
    process.until_logged("Paused slots get no requests until `bloomdupe resume`")
    standing = re.compile(r"\(0/min\), \d pending on 1 host \(1 resting\)\n")
    process.until(lambda: standing.search(process.log))
    shown = crawl.bloomdupe("info", "job")
    assert re.search("^  time to go +all slots rest$", shown, re.MULTILINE)
    assert re.search("^  127.0.0.1 .*, paused$", shown, re.MULTILINE)
    assert re.search("^paused +slot 127.0.0.1$", shown, re.MULTILINE)
    log = crawl.bloomdupe("resume", "job", "--slot", "x", code=1)
    assert "slot 'x' is not paused; paused slots: 127.0.0.1" in log
    said = crawl.bloomdupe("resume", "job", "--slot", "127.0.0.1")
    assert said.endswith("Nothing is paused.\n")
    process.finish()
    assert set(site.requested) == PAGES.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        "before take up",
        "after take up",  # nothing of it is durable
        "before empty the inbox",  # all of it is
        "after empty the inbox",
    ],
)
def test_a_crawl_that_is_killed_makes_a_change_once(
    crawl: Crawl, site: Site, point: str
) -> None:
    process = begun(crawl, stop=point)
    said = crawl.bloomdupe("requeue", "job", f"{site.base}/a", "--json")
    assert json.loads(said)["taken_in"] == 1
    assert process.wait().stopped == point
    site.release()
    crawl.finish(Follow)
    asked = Counter(site.requested)
    assert asked["/a"] == 2
    assert asked.keys() == PAGES.keys()
    assert inbox(crawl) == []


@pytest.mark.slow
@pytest.mark.parametrize("killed_too", [True, False])
def test_a_verb_that_is_killed_has_its_change_made(
    crawl: Crawl, site: Site, *, killed_too: bool
) -> None:
    """By the crawl that runs, or by the next run if that was killed, too."""
    site.hold("/b")
    process = crawl.start(Follow, stop="before take up" if killed_too else "", **SLOW)
    process.until_requested("/b")
    words = ["add", "job", f"{site.base}/new"]
    killed_after("bloomdupe.store.inbox:Inbox.post", 1, *words, cwd=crawl.folder)
    if killed_too:
        process.wait()
    site.release()
    crawl.finish(Follow) if killed_too else process.finish()
    asked = Counter(site.requested)
    assert asked["/new"] == asked["/new1"] == 1
    assert inbox(crawl) == []


def test_a_run_makes_the_changes_that_are_left_before_it_asks_for_a_page(
    crawl: Crawl, site: Site
) -> None:
    process = begun(crawl)
    words = ["drop", "job", "--pattern", "."]
    process.send(signal.SIGSTOP)
    killed_after("bloomdupe.store.inbox:Inbox.post", 1, *words, cwd=crawl.folder)
    process.kill()
    site.release()
    before = len(site.requested)
    # Changes are also made after a checkpoint; here none comes before the end.
    crawl.finish(Follow, BLOOMDUPE_CHECKPOINT_INTERVAL=600)
    assert site.requested[before:] == []
    assert inbox(crawl) == []


def test_an_error_of_a_change_names_it_and_the_next_run_makes_the_change(
    crawl: Crawl, site: Site
) -> None:
    process = begun(crawl, before=without_room)
    words = ["add", "job", f"{site.base}/new"]
    killed_after("bloomdupe.store.inbox:Inbox.post", 1, *words, cwd=crawl.folder)
    process.until_logged("The change 'add' failed, so the crawl stops: no room for it")
    site.release()
    run = process.wait()
    assert run.status == 1
    assert "A checkpoint failed" not in run.log
    crawl.finish(Follow)
    assert set(site.requested) == {*PAGES, "/new", "/new1"}
    assert site.count["/new"] == 1
    assert inbox(crawl) == []


def test_a_change_that_is_not_understood_is_refused_and_one_that_is_damaged_stays(
    crawl: Crawl, site: Site, running: Process
) -> None:
    posted = Inbox(crawl.store).post({"version": 1, "kind": "stay"})
    place = crawl.store / "inbox" / "2-damaged.json"
    place.with_suffix(".new").write_text("{")
    place.with_suffix(".new").rename(place)
    running.until_logged("A change in the inbox is refused: this version knows no")
    running.until(lambda: inbox(crawl) == [])
    assert place.with_suffix(".unreadable").read_text() == "{"
    with BloomFilter.open(crawl.store, readonly=True) as seen:
        answers = (seen.record("inbox") or {})["answers"]
    assert answers == {posted: {"refused": "this version knows no change 'stay'"}}
    site.release()
    running.finish()


def test_rules_that_cannot_be_read_are_refused(
    crawl: Crawl, site: Site, running: Process
) -> None:
    """Else no checkpoint would follow, and no run could open the job."""
    change = {"kind": "block", "undo": False, "slot": None, "pattern": None}
    for rule in ({"pattern": "("}, {"key": "no number"}, "no rule"):
        Inbox(crawl.store).post({**change, "pages": {}, "rules": [rule]})
    refused = "the change 'block' is not written as expected"
    running.until(lambda: inbox(crawl) == [])
    running.until(lambda: running.log.count(refused) == 3)
    site.release()
    running.finish()
    assert set(site.requested) == PAGES.keys()
