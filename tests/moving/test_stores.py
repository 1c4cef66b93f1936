"""Imports of other stores: a job comes back whole; and of lines of JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from scrapy import FormRequest, Request
from scrapy.utils.request import fingerprint
from support.jobs import IDENTITY, SPIDER, Verb, call, make_job, put, sound, urls

from bloomdupe import BloomFilter
from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.crawl.requests.visits import Visit
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.frontier.pending_requests import pending_requests
from bloomdupe.store.store import Store

DONE = [f"https://a.example/done/{n}" for n in range(30)]
PLAIN = [f"https://{host}.example/{n}" for host in "ab" for n in range(50)]


def all_kinds() -> list[Request | str]:
    return [
        *PLAIN,
        Request("https://a.example/deep", meta={"depth": 7}, priority=-99),
        Request("https://a.example/r", headers={"Referer": "https://a.example/x"}),
        Request("https://a.example/h", headers={"X": ["1", "ä"], "Y": b"\xff"}),
        Request("https://a.example/p", method="POST", body="a=ä", dont_filter=True),
        Request("https://a.example/q", method="PUT", body=b"\xff\x00"),
        Request("https://a.example/c", SPIDER.parse_item, errback=SPIDER.parse_item),
        Request("https://a.example/v", cb_kwargs={"t": (1, {2}), "d": {3: 4}}),
        Request("https://a.example/j", cb_kwargs={"t": [1, {"x": None}]}, flags=["f"]),
        Request("https://a.example/k", cookies={"a": "b"}, encoding="latin-1"),
        Request("https://a.example/big", priority=10**20),
        FormRequest("https://a.example/f", meta={"b": b"x"}, formdata={"a": "b"}),
    ]


def payloads(job: Path) -> list[tuple[str, bytes, float | None]]:
    """Return slots and requests, in their order."""
    store = Store.open(job / "bloomdupe", readonly=True)
    try:
        found = [
            (one.slot, one.payload, one.not_before) for one in pending_requests(store)
        ]
    finally:
        store.close()
    return sorted(found, key=lambda one: one[0])


LATER = ["https://a.example/later", "https://b.example/later"]
THEN = 4_000_000_000.5


@pytest.fixture
def job(tmp_path: Path) -> Path:
    job = make_job(tmp_path / "job", all_kinds(), done=DONE)
    with BloomFilter.open(job / "bloomdupe") as seen:
        frontier = Frontier(seen)
        for number, url in enumerate(LATER):
            payload = Serializer(SPIDER).dump(Request(url))
            seen.add(fingerprint(Request(url)))
            slot = url.split("/")[2]
            frontier.push(slot, 0, payload, not_before=THEN + number)
        frontier.checkpoint()
    return job


def test_a_job_comes_back_as_it_was(verb: Verb, job: Path) -> None:
    answer = verb("import", "copy", job)
    assert answer == (0, "113 requests pending now\n143 URLs count as seen\n", "")
    assert payloads(Path("copy")) == payloads(job)
    with (
        BloomFilter.open("copy/bloomdupe") as copy,
        BloomFilter.open(job / "bloomdupe") as seen,
    ):
        assert copy.parameters == seen.parameters
    for url in (DONE[0], PLAIN[0], "https://a.example/new"):
        assert verb("check", "copy", url).out == verb("check", job, url).out
    assert sound(verb, Path("copy"))
    # Again, it changes nothing.
    assert verb("import", "copy", job).out.startswith(
        "0 requests pending now\n113 were"
    )
    assert payloads(Path("copy")) == payloads(job)


def test_the_visits_of_a_page_move_with_it(verb: Verb, job: Path) -> None:
    serializer = Serializer(SPIDER)
    payload = serializer.dump(Request("https://a.example/known"))
    known = serializer.with_visit(payload, Visit(known=True).values)
    put(job, "a.example", known)
    assert verb("import", "copy", job).code == 0
    assert ("a.example", known, None) in payloads(Path("copy"))
    assert payloads(Path("copy")) == payloads(job)


def test_requests_scheduled_for_later_are_found_and_dropped(
    verb: Verb, job: Path
) -> None:
    after = "after 2096-10-02 07:06:40 UTC"
    listed = verb("list", job, "--slot", "a.example").out.splitlines()
    assert listed[-1] == f"a.example  0  GET  parse  {LATER[0]}  {after}"
    line = verb("list", job, "--pattern", "later", "--limit", "1", "--json").out
    assert json.loads(line)["not_before"] == THEN
    found = verb("check", job, LATER[0]).out
    assert found == f"pending in a.example, priority 0, parse, {after}: {LATER[0]}\n"
    assert verb("requeue", job, LATER[0]).out.startswith("0 pending now\n1 was pending")
    report = json.loads(verb("info", job, "--json").out)["job"]
    assert (report["pending"], report["later"]) == (113, 2)
    assert "  scheduled for later                  2\n" in verb("info", job).out
    assert verb("drop", job, "--slot", "b.example").out == "51 removed, 62 pending\n"
    assert verb("drop", job, "--pattern", "later").out == "1 removed, 61 pending\n"
    assert sound(verb, job)
    assert len(urls(verb, job)) == 61


def test_a_list_in_json_can_be_added(verb: Verb, job: Path, tmp_path: Path) -> None:
    shown = verb("list", job, "--slot", "b.example", "--json").out
    (tmp_path / "lines").write_text(shown)
    answer = verb(
        "add", tmp_path / "new", "--from", tmp_path / "lines", "--spider", "s"
    )
    assert answer.code == 0
    again = verb("list", tmp_path / "new", "--json").out
    assert sorted(again.splitlines()) == sorted(shown.splitlines())
    assert len(shown.splitlines()) == 51  # one of them for later


def test_other_programs_can_write_lines(verb: Verb, job: Path) -> None:
    Path("lines").write_text(
        '{"url": "https://n.example/1", "priority": 3, "callback": "parse_item"}\n'
        '{"url": "https://n.example/2", "method": "POST", "body": "x"}\n'
        '{"url": "https://n.example/3", "meta": {"depth": 1}, "slot": "x"}\n'
        '{"url": "https://n.example/4", "priority": true}\n'
        '{"url": "https://n.example/5", "colour": "red"}\n'
        '{"url": "https://n.example/6", "headers": [1]}\n'
        '{"url": "https://n.example/7", "payload": "!"}\n'
        '{"url": "https://n.example/8", "payload": "UGdhcmJhZ2U="}\n'
        '{"url": "https://n.example/9", "age": -1}\n'
        "[]\n"
    )
    answer = verb("import", job, "lines", "--json")
    report = json.loads(answer.out)
    assert (answer.code, report["taken_in"]) == (1, 3)
    assert report["problems"]["count"] == 7
    assert verb("list", job, "--slot", "n.example").out.splitlines() == [
        "n.example  3  GET  parse_item  https://n.example/1",
        "n.example  0  POST  parse  https://n.example/2",
    ]
    assert verb("list", job, "--slot", "x").out.endswith("https://n.example/3\n")


def test_marks_of_another_filter_are_refused(verb: Verb, job: Path) -> None:
    make_job(Path("other"), ["https://o.example/"])
    before = urls(verb, Path("other"))
    answer = verb("import", "other", job)
    assert (answer.code, answer.out) == (1, "")
    assert "another secret key" in answer.err
    assert urls(verb, Path("other")) == before
    answer = verb("import", "other", job, "--without-marks")
    assert answer == (0, "113 requests pending now\n", "")
    assert len(urls(verb, Path("other"))) == 114
    assert verb("check", "other", DONE[0]).out.startswith("new")


def test_another_spiders_job_is_refused(verb: Verb, job: Path) -> None:
    identity = {**IDENTITY, "spider": "other"}
    BloomFilter.open("other/bloomdupe", 10, identity=identity).close()
    for options in ((), ("--without-marks",)):
        answer = verb("import", "other", job, *options)
        assert answer.code == 1
        assert "was made with spider = 'other'" in answer.err


def test_a_running_job_is_not_imported(job: Path) -> None:
    with BloomFilter.open(job / "bloomdupe"):
        done = call("import", "x", str(job), cwd=Path.cwd())
        assert done.returncode == 1
        assert f"is in use by process {os.getpid()}" in done.stderr


def test_imports_of_another_job_do_not_count(verb: Verb, job: Path) -> None:
    url = "https://a.example/same"
    same = [Request(url, dont_filter=True, meta={"n": n}) for n in range(9)]
    with BloomFilter.open(job / "bloomdupe") as seen:
        seen.notes["import"] = {"source": "x", "taken": 7, "base": 7, "done": True}
        frontier = Frontier(seen)
        for request in same:
            frontier.push("a.example", 0, Serializer(SPIDER).dump(request))
        frontier.checkpoint()
    before = len(urls(verb, job))
    for _ in range(2):
        assert verb("import", "copy", job).code == 0
        assert len(urls(verb, Path("copy"))) == before


def test_pickles_come_with_a_store_as_they_are(verb: Verb, job: Path) -> None:
    """They are told apart without being loaded: by method, URL and body."""
    url = "https://a.example/pickled"
    meta = {"x": Path()}
    serializer = Serializer(SPIDER, pickles=True)
    pickled = [
        Request(url, meta=meta, priority=3),
        Request(url, meta=meta, method="POST", body="a=1"),
        Request(url, meta=meta, method="POST", body="a=2", priority=-1),
        Request(url, meta=meta, dont_filter=True),
    ]
    with BloomFilter.open(job / "bloomdupe") as seen:
        frontier = Frontier(seen)
        for request in pickled:
            seen.add(fingerprint(request))
            frontier.push("a.example", request.priority, serializer.dump(request))
        frontier.checkpoint()
    verb("import", "copy", job)
    assert payloads(Path("copy")) == payloads(job)
    # Asked for by its URL, the page is found, and the forms are not.
    assert verb("drop", "copy", url).out.startswith("2 removed")
