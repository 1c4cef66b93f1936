"""Rules and added requests of a job that runs: once, even if a process is killed."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from typing import Any

import pytest
from scrapy import Request
from spiders.follow import Follow, Mixed, Unstorable
from support.crawl import Crawl, Process
from support.engines import on_both_engines
from support.site import PAGES, Pages, Site, links

from bloomdupe import BloomFilter
from bloomdupe.crawl.added_requests import TAKEN_IN, add_request
from bloomdupe.crawl.scheduler import MOST_KEPT_OUT
from bloomdupe.crawl.state.rules import Rules
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.requests.serializer import Serializer
from bloomdupe.store.inbox import Inbox

SLOW: dict[str, Any] = {"CONCURRENT_REQUESTS": 1}
OBEYS = "The running crawl (process "


@pytest.fixture
def pages() -> Pages:
    return {**PAGES, "/new": links("/new1"), "/new1": "x"}


def test_an_added_url_is_exact_if_its_like_are() -> None:
    seen = BloomFilter(100, 1e-3)
    payload = Serializer(Follow("follow")).dump(Request("data:,"))
    one = SentRequest("a", 0, payload, ((b"key", True),))
    again = one._replace(keys=((b"again", False),), dont_filter=True)
    for added in (one, again, again._replace(start=True)):
        assert add_request(added, Rules(), seen, id) == TAKEN_IN
        assert seen.contains(b"key", exact=True)
        assert (b"again" in seen) == added.start


def in_order(crawl: Crawl, spider: type[Follow], **options: Any) -> Process:
    """Start a crawl in which /b is in flight; the oldest request is always next."""
    crawl.site.hold("/b")
    crawl.settings["SCHEDULER_DISK_QUEUE"] = "scrapy.squeues.PickleFifoDiskQueue"
    process = crawl.start(spider, **SLOW, **options)
    process.until_requested("/b")
    return process


def begun(crawl: Crawl, **options: Any) -> Process:
    """Start a crawl with /a done and /b in flight, while /c to /f are pending."""
    process = in_order(crawl, Follow, **options)
    process.until(lambda: crawl.durable_pages == 2)
    return process


def inbox(crawl: Crawl) -> list[str]:
    return Inbox(crawl.store).names()


@on_both_engines
def test_a_running_crawl_obeys_a_rule_and_forgets_it(crawl: Crawl, site: Site) -> None:
    process = begun(crawl)
    job = crawl.engine.job
    rule = ["block", job, "--pattern", "/[cde]1?$"]
    answer = json.loads(crawl.bloomdupe(*rule, "--json"))
    assert answer == {"blocked": [{"pattern": "/[cde]1?$"}], "paused": []}
    # Three at once: so there were never three rules before one of them is undone.
    more = [f"{site.base}/{path}" for path in ("f1", "y", "z")]
    said = crawl.bloomdupe("block", job, *more)
    assert f"blocked: {site.base}/f1\n" in said
    assert "The running crawl (" in said
    process.until_logged("keeps requests out by 4 rules")
    crawl.bloomdupe("block", job, f"{site.base}/f1", "--undo")
    process.until_logged("keeps requests out by 3 rules")
    site.release()
    run = process.finish()
    gone = {f"/{name}{more}" for name in "cde" for more in ("", "1")}
    assert Counter(site.requested) == Counter(PAGES.keys() - gone)
    assert "pattern /[cde]1?$" in crawl.bloomdupe("info", job)
    # The pending requests count when their turn has come; they stay seen.
    assert run.stats["bloomdupe/dropped_blocked"] == 3
    assert run.stats["scheduler/enqueued"] == run.stats["scheduler/dequeued"] + 3
    assert run.stats["bloomdupe/pending"] == 0
    said = crawl.bloomdupe("check", job, f"{site.base}/c", f"{site.base}/c1")
    assert said == f"seen, not pending: {site.base}/c\nnew: {site.base}/c1\n"
    crawl.bloomdupe(*rule, "--undo")
    assert " is not blocked; " in crawl.bloomdupe(*rule, "--undo", code=1)


@pytest.mark.parametrize("name", ["drop", "requeue"])
@on_both_engines
def test_a_job_that_runs_drops_and_requeues_nothing(
    crawl: Crawl, site: Site, name: str
) -> None:
    """The remedy is to stop the crawl, which costs nothing."""
    process = begun(crawl)
    job = crawl.engine.job
    words = {"drop": ["--pattern", "/[cd]$"], "requeue": [f"{site.base}/a"]}[name]
    said = crawl.bloomdupe(name, job, *words, code=1)
    assert "this needs a job that does not run: stop" in said
    assert said.count("\n") == 1
    crawl.bloomdupe("stop", job)
    site.release()
    run = process.wait()
    assert run.status == 0
    crawl.bloomdupe(name, job, *words)
    crawl.finish(Follow)
    asked = Counter(site.requested)
    assert asked.keys() - {"/c", "/d", "/c1", "/d1"} >= {"/", "/a", "/b", "/e", "/f"}
    assert asked["/a"] == (2 if name == "requeue" else 1)


def test_a_crawl_of_blocked_requests_ends_and_goes_on_meanwhile(
    crawl: Crawl, site: Site
) -> None:
    """A rule may keep out more requests than may be looked at in one call."""
    urls = [f"https://a.example/{number}" for number in range(3 * MOST_KEPT_OUT)]
    (crawl.folder / "lines").write_text("\n".join(urls))
    crawl.bloomdupe("add", "job", "--from", "lines", "--spider", "follow")
    crawl.bloomdupe("block", "job", "--slot", "a.example")
    run = crawl.start(Follow).finish()
    assert Counter(site.requested) == Counter([*PAGES])
    assert run.stats["bloomdupe/dropped_blocked"] == len(urls)
    assert run.stats["finish_reason"] == "finished"


@pytest.mark.parametrize("spider", [Unstorable, Mixed])
def test_a_request_in_memory_that_a_rule_keeps_out_ends_its_page(
    crawl: Crawl, site: Site, spider: type[Follow]
) -> None:
    """It cannot be stored, so its page is not done before it is; its slot is free."""
    process = in_order(crawl, spider, CONCURRENT_REQUESTS_PER_DOMAIN=1)
    crawl.bloomdupe("block", "job", "--pattern", "/[c-f]$")
    process.until_logged("keeps requests out by 1 rule")
    site.release()
    run = process.finish()
    assert run.log.count("live in memory only") == 1
    assert run.stats["bloomdupe/dropped_blocked"] == 4
    assert run.stats["bloomdupe/unfinished"] == 0
    before = len(site.requested)
    crawl.start(spider).finish()
    assert site.requested[before:] == []


def test_a_slot_is_paused_and_resumed_also_over_a_kill(
    crawl: Crawl, site: Site
) -> None:
    running = begun(crawl)
    said = crawl.bloomdupe("pause", "job", "--slot", "127.0.0.1")
    assert said.startswith(f"paused: slot 127.0.0.1\n{OBEYS}")
    running.until_logged("until `bloomdupe resume`: 127.0.0.1")
    site.release()
    running.until(lambda: crawl.durable_pages == 3)
    assert site.requested == ["/", "/a", "/b"]
    running.kill()
    process = crawl.start(Follow, **SLOW, BLOOMDUPE_PROGRESS_INTERVAL=0.05)
    process.until_logged("Paused slots get no requests until `bloomdupe resume`")
    standing = re.compile(
        r"\(0/min\), \d pending on 1 host \(1 backing off or paused\)\n"
    )
    process.until(lambda: standing.search(process.log))
    shown = crawl.bloomdupe("info", "job")
    assert re.search("^pending .*, all paused, ", shown, re.MULTILINE)
    assert re.search("^  127.0.0.1 .*, paused$", shown, re.MULTILINE)
    assert re.search("^paused +slot 127.0.0.1$", shown, re.MULTILINE)
    log = crawl.bloomdupe("resume", "job", "--slot", "x", code=1)
    assert "slot x is not paused; paused now: slot 127.0.0.1" in log
    said = crawl.bloomdupe("resume", "job", "--slot", "127.0.0.1")
    assert said.startswith(f"Nothing is paused.\n{OBEYS}")
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
def test_a_crawl_that_is_killed_adds_a_request_once(
    crawl: Crawl, site: Site, point: str
) -> None:
    """With ``dont_filter``, so that the filter does not tell that it was added."""
    process = begun(crawl, stop=point)
    line = {"url": f"{site.base}/a", "dont_filter": True}
    (crawl.folder / "lines").write_text(json.dumps(line))
    said = crawl.bloomdupe("add", "job", "--from", "lines", "--json")
    assert json.loads(said)["handed_over"] == 1
    assert process.wait().stopped == point
    site.release()
    crawl.finish(Follow)
    asked = Counter(site.requested)
    assert asked["/a"] == 2
    assert asked.keys() == PAGES.keys()
    assert inbox(crawl) == []


def test_a_verb_adds_what_is_left_in_the_inbox_first(crawl: Crawl, site: Site) -> None:
    """As it would have been done if the crawl had not ended."""
    process = begun(crawl)
    process.send(signal.SIGSTOP)
    crawl.bloomdupe("add", "job", f"{site.base}/new", f"--priority={1 << 64}")
    assert f"{site.base}/new\n" in crawl.bloomdupe("list", "job")
    crawl.bloomdupe("backup", "job", "copy")
    assert Inbox(crawl.folder / "copy").names() == inbox(crawl) != []
    process.kill()
    site.release()
    before = len(site.requested)
    crawl.bloomdupe("drop", "job", "--pattern", ".")
    assert inbox(crawl) == []
    crawl.finish(Follow)
    assert site.requested[before:] == []


def test_a_message_that_cannot_be_read_stays(crawl: Crawl, site: Site) -> None:
    """Else no checkpoint would follow, and no run could open the job."""
    running = begun(crawl)
    posted = Inbox(crawl.store).post([site.base.encode()])
    place = crawl.store / "inbox" / "2-damaged.msgpack"
    place.with_suffix(".new").write_text("{")
    place.with_suffix(".new").rename(place)
    running.until(lambda: running.log.count("A message in the inbox cannot be") == 2)
    running.until(lambda: inbox(crawl) == [])
    unreadable = place.with_suffix(".unreadable")
    assert unreadable.read_text() == "{"
    assert f"It is now {unreadable}" in running.log
    assert (crawl.store / "inbox" / f"{posted}.unreadable").exists()
    site.release()
    running.finish()
    assert set(site.requested) == PAGES.keys()
