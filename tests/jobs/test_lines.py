"""Lines of requests, as ``list`` prints and ``add`` reads them; and their times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scrapy import Request
from support.jobs import (
    PROJECT,
    RICH,
    Verb,
    as_project,
    described,
    make_job,
    restored,
    urls,
)

from bloomdupe.crawl.progress.pace import when

DONE = [f"https://a.example/done/{n}" for n in range(30)]
PLAIN = [f"https://{host}.example/{n}" for host in "ab" for n in range(50)]


LATER = ["https://a.example/later", "https://b.example/later"]
THEN = 4_000_000_000.5


@pytest.fixture
def job(tmp_path: Path) -> Path:
    job = make_job(tmp_path / "job", PLAIN, done=DONE)
    for number, url in enumerate(LATER):
        make_job(job, [url], not_before=THEN + number)
    return job


def test_requests_scheduled_for_later_are_found_and_dropped(
    verb: Verb, job: Path
) -> None:
    after = f"after {when(THEN)}"
    listed = verb("list", job, "--slot", "a.example").out.splitlines()
    assert listed[-1] == f"a.example  0  GET  parse  {LATER[0]}  {after}"
    line = verb("list", job, "--pattern", "later", "--limit", "1", "--json").out
    assert json.loads(line)["not_before"] == THEN
    found = verb("check", job, LATER[0]).out
    assert found == f"pending: {listed[-1]}\n"
    assert verb("requeue", job, LATER[0]).out.startswith("0 pending now\n1 was pending")
    report = json.loads(verb("info", job, "--json").out)["job"]
    assert (report["pending"], report["delayed"]) == (102, 2)
    assert ", 2 delayed, " in verb("info", job).out
    assert verb("drop", job, "--slot", "b.example").out == "51 removed, 51 pending\n"
    assert verb("drop", job, "--pattern", "later").out == "1 removed, 50 pending\n"
    assert verb("verify", job).code == 0
    assert len(urls(verb, job)) == 50


def test_a_list_in_json_is_whole(verb: Verb, tmp_path: Path) -> None:
    """With bodies, headers, meta: so pending requests move into another job."""
    places = [f"https://a.example/{number}" for number in range(3)]
    requests = [RICH[0], *(Request(place, meta={"depth": 3}) for place in places)]
    make_job(tmp_path / "job", [*requests, "https://a.example/plain"])
    (tmp_path / "lines").write_text(verb("list", tmp_path / "job", "--json").out)
    assert (tmp_path / "lines").read_text().count('"payload"') == len(requests)
    as_project(PROJECT)
    words = ("--from", tmp_path / "lines", "--spider", "site")
    assert verb("add", tmp_path / "new", *words).out == "5 pending now\n"
    assert urls(verb, tmp_path / "new") == urls(verb, tmp_path / "job")  # in this order
    assert described(restored(tmp_path / "new")) == described(
        [*requests, Request("https://a.example/plain")]
    )


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
        '{"url": "https://n.example/9", "not_before": -1}\n'
        '{"url": "https://n.example/10", "not_before": 253402300800}\n'
        "[]\n"
    )
    answer = verb("add", job, "--from", "lines", "--json")
    report = json.loads(answer.out)
    assert (answer.code, report["taken_in"]) == (1, 3)
    assert report["broken"]["count"] == 8
    assert verb("list", job, "--slot", "n.example").out.splitlines() == [
        "n.example  3  GET  parse_item  https://n.example/1",
        "n.example  0  POST  parse  https://n.example/2",
    ]
    assert verb("list", job, "--slot", "x").out.endswith("https://n.example/3\n")
