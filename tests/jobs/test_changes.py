"""Verbs that look for requests, add them and take them out, judged by a model.

The model is plain Python: the URLs that are done, and those that wait, by slot.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.settings import Settings
from spiders.follow import Follow
from support.crawl import BLOOMDUPE
from support.jobs import (
    IDENTITY,
    SPIDER,
    Verb,
    killed_after,
    make_job,
    urls,
)
from support.waiting import DEADLINE

from bloomdupe import BloomFilter
from bloomdupe.jobs.held import Problems
from bloomdupe.jobs.project import Project
from bloomdupe.jobs.request_line import Line, read_all
from bloomdupe.requests.layout import changed, url_of
from bloomdupe.requests.serializer import Serializer

DONE = [f"https://a.example/done/{number}" for number in range(50)]
WAIT = [f"https://{host}.example/{number}" for host in "ab" for number in range(100)]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return make_job(tmp_path / "job", WAIT, done=DONE)


# check


def test_check_tells_new_done_and_pending_apart(
    verb: Verb, tmp_path: Path, job: Path
) -> None:
    answer = verb("check", job, "https://a.example/7#top", DONE[3], "https://c.example")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "pending: a.example  0  GET  parse  https://a.example/7",
        f"seen, not pending: {DONE[3]}",
        "new: https://c.example",
    ]
    posts = [{"url": WAIT[0], "method": "POST", "body": text} for text in "ab"]
    make_job(job, [Request(WAIT[0], method="POST", body="a")])
    (tmp_path / "posts").write_text("\n".join(map(json.dumps, posts)))
    assert verb("check", job, "--from", tmp_path / "posts").out.splitlines() == [
        f"pending: a.example  0  POST  parse  {WAIT[0]}",
        f"new: {WAIT[0]}",
    ]


def test_another_fingerprinter_is_refused(verb: Verb, tmp_path: Path) -> None:
    identity = {**IDENTITY, "fingerprinter": "project.Fingerprinter"}
    with BloomFilter.open(tmp_path / "job/bloomdupe", 100, identity=identity):
        pass
    for name in ("check", "add", "requeue", "drop"):
        answer = verb(name, tmp_path / "job", "https://a.example/")
        assert answer.code == 1
        assert "REQUEST_FINGERPRINTER_CLASS = 'project.Fingerprinter'" in answer.err
        assert "call this in the folder of its project" in answer.err


# add


def test_add_appends_new_requests_in_their_order(verb: Verb, job: Path) -> None:
    before = urls(verb, job)
    new = [f"https://a.example/new/{number}" for number in range(10)]
    answer = verb("add", job, *new, DONE[0], WAIT[0], new[4])
    assert answer == (0, "10 pending now\n3 were seen before: skipped\n", "")
    assert urls(verb, job) == before[:100] + new + before[100:]
    assert verb("check", job, new[0]).out.startswith("pending: a.example ")


def test_a_line_with_a_callback_that_the_spider_lacks_is_refused() -> None:
    project = Project(Settings({"SPIDER_MODULES": ["spiders.follow"]}), Follow.name)
    assert project.known
    given: list[dict[str, Any]] = [
        {"callback": "nope"},
        {"callback": "parse"},
        {"errback": "custom_settings"},  # no method
        {"callback": None},
        {"callback": "close"},  # of every spider
        {"callback": "__init__"},
    ]
    lines = [
        Line(f"line {n}", json.dumps({"url": f"https://a.example/{n}", **fields}))
        for n, fields in enumerate(given, 1)
    ]
    problems = Problems()
    found = list(read_all(lines, project, problems))
    assert [url_of(one.payload)[-1] for one in found] == ["2", "4"]
    assert problems.shown == [
        "line 1: callback 'nope': spider 'follow' has no such callback",
        "line 3: errback 'custom_settings': spider 'follow' has no such callback",
        "line 5: callback 'close': spider 'follow' has no such callback",
        "line 6: callback '__init__': spider 'follow' has no such callback",
    ]
    stored = changed(Serializer(SPIDER).dump(Request(DONE[0])), callback="nope")
    packed = {"url": DONE[0], "payload": base64.b64encode(stored).decode()}
    unknown = Project(Settings(), "unknown")
    for one, count in ((project, 5), (unknown, 5)):
        list(read_all([Line("", json.dumps(packed))], one, problems))
        assert problems.count == count


def test_a_job_is_begun_for_a_spider(verb: Verb, tmp_path: Path) -> None:
    answer = verb("add", tmp_path / "job", "https://a.example/")
    assert answer.code == 2
    assert "--spider NAME names the spider for it" in answer.err
    assert not (tmp_path / "job").exists()
    answer = verb("add", tmp_path / "job", "https://a.example/", "--spider", "site")
    assert answer == (0, "1 pending now\n", "")
    assert urls(verb, tmp_path / "job") == ["https://a.example/"]


def test_killed_in_the_middle_and_run_again(
    verb: Verb, job: Path, tmp_path: Path
) -> None:
    new = [f"https://d.example/{'x' * 50}/{n}" for n in range(4_000)]
    (tmp_path / "list").write_text("\n".join(new))
    killed_after(2, "add", job, "--from", "list", cwd=tmp_path)
    some = len(urls(verb, job)) - len(WAIT)
    assert 0 < some < len(new)
    answer = verb("add", job, "--from", tmp_path / "list")
    assert answer.code == 0, answer
    assert sorted(urls(verb, job)) == sorted([*WAIT, *new])


# requeue


def test_requeue_brings_back_only_done_requests(verb: Verb, job: Path) -> None:
    answer = verb("requeue", job, DONE[0], DONE[1], WAIT[0], "https://a.example/never")
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "2 pending now",
        "1 was pending already: not added",
        "1 was never seen: use `bloomdupe add`",
    ]
    assert sorted(urls(verb, job)) == sorted([*WAIT, *DONE[:2]])
    # Once more changes nothing.
    assert verb("requeue", job, DONE[0]).out.startswith("0 pending now\n1 was pending")
    assert len(urls(verb, job)) == len(WAIT) + 2


# drop


@pytest.mark.parametrize(
    ("options", "goes"),
    [
        (["--slot", "b.example"], lambda url: "//b." in url),
        (["--slot", "a.example", "--pattern", "7"], lambda u: "//a." in u and "7" in u),
        (["https://b.example/5#x"], lambda url: url == "https://b.example/5"),
        (["--pattern", "."], lambda _: True),
    ],
)
def test_drop_removes_the_chosen_requests_and_they_stay_seen(
    verb: Verb, job: Path, options: list[str], goes: Callable[[str], bool]
) -> None:
    gone = [url for url in WAIT if goes(url)]
    order = [url for url in urls(verb, job) if not goes(url)]
    answer = verb("drop", job, *options)
    assert answer == (0, f"{len(gone)} removed, {len(order)} pending\n", "")
    assert urls(verb, job) == order
    assert verb("verify", job).code == 0
    for url in gone[:3]:
        assert verb("check", job, url).out == f"seen, not pending: {url}\n"
        assert verb("add", job, url).out.startswith("0 pending now")
    assert verb("drop", job, *options).out == f"0 removed, {len(order)} pending\n"


def test_a_url_is_found_however_it_is_written(verb: Verb, tmp_path: Path) -> None:
    there = ["https://www.b.example/x?b=2&a=1", "https://münchen.example/ä"]
    job = make_job(tmp_path / "job", [*there, "https://c.example/y"])
    same = "HTTPS://WWW.B.Example/x?a=1&b=2#top"
    assert verb("check", job, same).out.startswith("pending: ")
    assert verb("requeue", job, same).out.startswith("0 pending now\n1 was pending")
    answer = verb("block", job, there[1])
    assert answer.out.startswith("blocked: https://xn--mnchen-3ya.example/%C3%A4\n")
    assert verb("drop", job, same, there[1]).out == "2 removed, 1 pending\n"
    assert urls(verb, job) == ["https://c.example/y"]


def test_blocked_urls_are_not_added_by_hand(
    verb: Verb, job: Path, tmp_path: Path
) -> None:
    verb("block", job, "--pattern", "7$")
    blocked = "1 is blocked: `bloomdupe block --undo` deletes a rule"
    new = ["https://a.example/new7", "https://a.example/new8"]
    answer = verb("add", job, *new)
    assert (answer.code, answer.out.splitlines()) == (1, ["1 pending now", blocked])
    answer = verb("requeue", job, DONE[7], DONE[8])
    assert (answer.code, answer.out.splitlines()) == (1, ["1 pending now", blocked])
    (tmp_path / "list").write_text("https://c.example/7\nhttps://c.example/8\n")
    answer = verb("add", job, "--from", tmp_path / "list")
    assert answer.out.splitlines() == ["1 pending now", blocked]
    added = set(urls(verb, job)) - set(WAIT)
    assert not any(url.endswith("7") for url in added)
    # None of them was marked.
    verb("block", job, "--pattern", "7$", "--undo")
    assert verb("add", job, new[0]).out == "1 pending now\n"


# reset


def test_reset_lists_removed_files_and_leaves_the_rest(verb: Verb, job: Path) -> None:
    (job / "items.jsonl").write_text("{}\n")
    (job / "bloomdupe.feeds").mkdir()
    (job / "spider.state").touch()
    answer = verb("reset", job)
    assert (answer.code, answer.out) == (2, "")
    held = "250 URLs seen, 200 requests pending, 0 pages"
    assert f"{held}. There is no terminal to confirm it; --yes does" in answer.err
    assert len(urls(verb, job)) == len(WAIT)
    answer = verb("reset", job, "--yes")
    assert answer.code == 0
    gone = f"{job}/bloomdupe, {job}/bloomdupe.feeds, {job}/spider.state"
    assert answer.out == f"removed: {gone}: {held}\n"
    assert [path.name for path in job.iterdir()] == ["items.jsonl"]


@pytest.mark.parametrize(("said", "code"), [("yes\n", 0), ("", 2)])
def test_reset_asks_at_a_terminal(
    job: Path, tmp_path: Path, said: str, code: int
) -> None:
    parent, child = pty.openpty()
    os.write(parent, said.encode() or b"\x04")
    done = subprocess.run(
        [BLOOMDUPE, "reset", job],
        cwd=tmp_path,
        stdin=child,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )
    os.close(child)
    os.close(parent)
    assert "This removes" in done.stderr
    assert done.returncode == code
    assert (job / "bloomdupe").exists() == bool(code)


def test_a_link_to_a_store_is_not_reset(verb: Verb, job: Path) -> None:
    linked = job.with_name("linked")
    linked.mkdir()
    (linked / "bloomdupe").symlink_to(job / "bloomdupe")
    answer = verb("reset", linked, "--yes")
    assert answer.code == 1
    assert f"is a link: name {job / 'bloomdupe'}\n" in answer.err
    assert sorted(urls(verb, linked)) == sorted(WAIT)
    assert verb("reset", (linked / "bloomdupe").resolve(), "--yes").code == 0


def test_a_reset_that_was_killed_is_ended(verb: Verb, job: Path) -> None:
    (job / "bloomdupe").rename(job / "bloomdupe.removing")
    assert verb("reset", job).code == 2
    answer = verb("reset", job, "--yes")
    assert answer.out == f"removed: {job}/bloomdupe.removing: the rest of a store\n"
    assert not [*job.glob("bloomdupe*")]
    assert verb("reset", job, "--yes").code == 1


def test_a_damaged_job_can_be_reset_too(verb: Verb, job: Path) -> None:
    data = job / "bloomdupe/data.mdb"
    data.write_bytes(data.read_bytes()[:5000])
    answer = verb("reset", job, "--yes")
    assert answer.code == 0
    assert "it cannot be read" in answer.out
    assert not (job / "bloomdupe").exists()
