"""Jobs as lines of JSON: an export comes back whole, and only valid lines do."""

from __future__ import annotations

import json
import os
import shutil
import stat
from functools import partial
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


@pytest.mark.parametrize("by_file", [True, False])
def test_a_job_comes_back_as_it_was(verb: Verb, job: Path, by_file: bool) -> None:
    source = job
    if by_file:
        answer = verb("export", job, "file")
        assert answer.code == 0
        assert answer.out.startswith(
            "file: 113 requests, 0 that have failed, and a filter of 143 URLs in"
        )
        source = Path("file")
        assert stat.S_IMODE(source.stat().st_mode) == 0o600
    answer = verb("import", "copy", source)
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
    assert verb("import", "copy", source).out.startswith(
        "0 requests pending now\n113 were"
    )
    assert payloads(Path("copy")) == payloads(job)
    assert not list(Path.cwd().rglob("*importing*"))


def test_lines_describe_requests(verb: Verb, job: Path) -> None:
    lines = [json.loads(line) for line in verb("export", job, "-").out.splitlines()]
    by_url = {line["url"]: line for line in lines if "url" in line}
    assert len(by_url) == 113
    with_payload = {url[-1] for url, line in by_url.items() if "payload" in line}
    # JSON has no such values: bytes, tuples, sets, keys that are numbers, classes.
    assert with_payload == {"h", "q", "v", "f", "g"}
    assert by_url["https://a.example/j"]["cb_kwargs"] == {"t": [1, {"x": None}]}
    assert by_url["https://a.example/p"]["body"] == "a=ä"
    assert by_url["https://a.example/c"]["errback"] == "parse_item"
    assert by_url[LATER[0]]["not_before"] == THEN


def test_a_function_is_shown_and_comes_back(verb: Verb, tmp_path: Path) -> None:
    function = partial(SPIDER.parse_item, 3)
    job = make_job(tmp_path / "job", [Request("https://a.example/", function)])
    assert verb("export", job, "file").code == 0
    lines = [json.loads(line) for line in Path("file").read_text().splitlines()]
    (line,) = (line for line in lines if "url" in line)
    assert line["callback"] == "partial(parse_item)"
    assert "partial(parse_item)" in verb("list", job).out
    assert verb("import", "copy", "file").code == 0
    assert payloads(Path("copy")) == payloads(job)


def test_the_visits_of_a_page_move_with_it(verb: Verb, job: Path) -> None:
    serializer = Serializer(SPIDER)
    payload = serializer.dump(Request("https://a.example/known"))
    known = serializer.with_visit(payload, Visit(known=True).values)
    put(job, "a.example", known)
    assert verb("export", job, "out").code == 0
    assert verb("import", "copy", "out").code == 0
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


def test_a_running_job_is_exported_but_not_imported(verb: Verb, job: Path) -> None:
    with BloomFilter.open(job / "bloomdupe"):
        done = call("export", str(job), "file", cwd=Path.cwd())
        assert done.returncode == 0, done.stderr
        done = call("import", "x", str(job), cwd=Path.cwd())
        assert done.returncode == 1
        assert f"is in use by process {os.getpid()}" in done.stderr
    assert verb("import", "x", "file").code == 0
    assert payloads(Path("x")) == payloads(job)


def test_an_export_that_is_cut_off_is_no_job(verb: Verb, job: Path) -> None:
    verb("export", job, "file")
    lines = Path("file").read_text().splitlines(keepends=True)
    for cut in (1, 50, 114, 115, len(lines) - 1):
        Path("part").write_text("".join(lines[:cut]))
        shutil.rmtree("copy", ignore_errors=True)
        answer = verb("import", "copy", "part")
        assert (answer.code, answer.out) == (1, "")
        assert "the export is cut off" in answer.err
        # With the whole of it, it goes on.
        assert verb("import", "copy", "file").code == 0
        assert payloads(Path("copy")) == payloads(job)
        assert verb("check", "copy", DONE[0]).out.startswith("seen")


@pytest.mark.parametrize(
    ("find", "put", "message"),
    [
        ('"bloomdupe": 1', '"bloomdupe": 2', "reads format 1"),
        ('"id"', '"di"', "the first line of the export is damaged"),
        ('"record": "journal"', '"record": "queue"', "is damaged: no such record"),
        ('"value": "eA', '"value": "eB', "is damaged: no such record"),
        ('"exact_urls": []', '"exact_urls": ["("]', "no list of regular expressions"),
        ('"exact_urls": []', '"exact_urls": 7', "no list of regular expressions"),
        ('"layers": [[', '"layers": [[7, ', "is damaged: it describes no filter"),
        ('"layers": [[', '"layers": [["x", ', "is damaged: it describes no filter"),
        ('"layers": [', '"layers": [7, ', "is damaged: it describes no filter"),
        ('"layers"', '"others"', "is damaged: it describes no filter"),
        ('"trials": 0', '"trials": ""', "is damaged: it describes no filter"),
        ('"requests": 113, "records"', '"requests": 112, "records"', "is not whole"),
    ],
)
def test_a_damaged_export_is_refused(
    verb: Verb, job: Path, find: str, put: str, message: str
) -> None:
    verb("export", job, "file")
    text = Path("file").read_text()
    assert find in text
    Path("file").write_text(text.replace(find, put))
    answer = verb("import", "copy", "file")
    assert answer.code == 1
    assert message in answer.err


def test_a_crawl_waits_for_the_import_to_be_whole(verb: Verb, job: Path) -> None:
    verb("export", job, "file")
    lines = Path("file").read_text().splitlines(keepends=True)
    Path("part").write_text("".join(lines[:50]))
    verb("import", "copy", "part")
    with BloomFilter.open("copy/bloomdupe", readonly=True) as seen:
        assert seen.notes["import"]["done"] is False
    assert "half imported: run the import again" in verb("info", "copy").out
    verb("import", "copy", "file")
    with BloomFilter.open("copy/bloomdupe", readonly=True) as seen:
        assert seen.notes["import"]["done"] is True
        assert seen.notes["run"] == "shutdown"


@pytest.mark.parametrize("source", ["job", "lines"])
def test_imports_of_another_job_do_not_count(
    verb: Verb, job: Path, source: str
) -> None:
    url = "https://a.example/same"
    same = [Request(url, dont_filter=True, meta={"n": n}) for n in range(9)]
    with BloomFilter.open(job / "bloomdupe") as seen:
        seen.notes["import"] = {"source": "x", "taken": 7, "base": 7, "done": True}
        frontier = Frontier(seen)
        for request in same:
            frontier.push("a.example", 0, Serializer(SPIDER).dump(request))
        frontier.checkpoint()
    verb("export", job, "lines")
    before = len(urls(verb, job))
    for _ in range(2):
        assert verb("import", "copy", source).code == 0
        assert len(urls(verb, Path("copy"))) == before


def test_pickles_are_exported_and_not_taken_back(verb: Verb, job: Path) -> None:
    pickled = Serializer(SPIDER, pickles=True).dump(
        Request("https://a.example/pickled", meta={"x": Path()})
    )
    put(job, "a.example", pickled)
    answer = verb("export", job, "file")
    assert "1 of the requests are pickles" in answer.out
    answer = verb("import", "copy", "file")
    assert answer.code == 1
    assert "its payload is a pickle" in answer.out
    assert len(urls(verb, Path("copy"))) == 113


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


def test_a_place_that_cannot_be_written_is_named(verb: Verb, job: Path) -> None:
    answer = verb("export", job, "nowhere/file")
    assert (answer.code, answer.out) == (1, "")
    assert "cannot write nowhere/file" in answer.err
