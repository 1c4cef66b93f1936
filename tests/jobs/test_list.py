"""``list`` and ``info``: their output for a job, compared with its contents."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scrapy import Request
from support.jobs import IDENTITY, SPIDER, Verb, call, make_job
from support.monitored_jobs import NOW, failures_part

from bloomdupe import BloomFilter
from bloomdupe.crawl.leases.failure import Failure
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.requests.serializer import Serializer
from bloomdupe.store.lmdb.open_data import MARK_BYTES

HOSTS = ("a.example", "b.example", "c.example")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    requests = [
        Request(f"https://{host}/{number}", priority=number % 3)
        for host in HOSTS
        for number in range(999)
    ]
    requests += [
        Request(f"https://{host}/form", SPIDER.parse_item, method="POST", body=b"x")
        for host in HOSTS
    ]
    return make_job(tmp_path_factory.mktemp("made") / "job", requests)


@pytest.fixture
def job(made: Path, tmp_path: Path) -> Path:
    """Return a job with 3,000 requests of three hosts.

    A copy is another file than its mark is for, so each verb would check it, and say so
    if that takes long. To open it once for writing marks it.
    """
    copy = shutil.copytree(made, tmp_path / "job")
    BloomFilter.open(copy / "bloomdupe").close()
    return copy


def test_only_verbs_that_need_the_project_import_scrapy(job: Path) -> None:
    """To import it takes longer than all else that these verbs do."""
    code = (
        "import sys; from bloomdupe.cli.main import main\n"
        "for verb, *words in (['list'], ['list', '--failed'], ['info'],\n"
        "    ['drop', '--slot', 'b.example'], ['block', '--slot', 'b.example'],\n"
        "    ['check', 'https://a.example/']):\n"
        "    main([verb, sys.argv[1], *words])\n"
        "    print('imported:', verb, 'scrapy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(job)],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = re.findall(r"^imported: (\w+) (\w+)$", done.stdout, re.MULTILINE)
    names = ["list", "list", "info", "drop", "block"]
    assert imported == [*((name, "False") for name in names), ("check", "True")]


def listed(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_all_requests_are_listed_once_each_slot_in_its_order(
    verb: Verb, job: Path
) -> None:
    found = listed(verb("list", job, "--json").out)
    # By priority, then the newest first.
    order = sorted(range(999), key=lambda number: (number % 3, number), reverse=True)
    for host in HOSTS:
        expected = [f"https://{host}/{number}" for number in order]
        expected.insert(666, f"https://{host}/form")
        assert [one["url"] for one in found if one["slot"] == host] == expected
    assert len(found) == 3000


def test_the_details_of_a_request(verb: Verb, job: Path) -> None:
    chosen = ["--slot", "b.example", "--pattern", "form$"]
    answer = verb("list", job, *chosen)
    assert answer.out == "b.example  0  POST  parse_item  https://b.example/form\n"
    (one,) = listed(verb("list", job, *chosen, "--json").out)
    assert one.pop("payload")
    assert one == {
        "slot": "b.example",
        "method": "POST",
        "url": "https://b.example/form",
        "priority": 0,
        "callback": "parse_item",
    }


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ([], 3000),
        (["--slot", "a.example"], 1000),
        (["--slot", "a.example", "--pattern", "nowhere"], 0),
        (["--pattern", r"/99\d$"], 27),
        (["--pattern", "/7$", "--slot", "c.example"], 1),
        (["--limit", "5"], 5),
    ],
)
def test_slot_pattern_and_limit(
    verb: Verb, job: Path, options: list[str], lines: int
) -> None:
    answer = verb("list", job, *options)
    assert (answer.code, answer.out.count("\n"), answer.err) == (0, lines, "")


@pytest.mark.parametrize("words", [["list"], ["list", "--failed"], ["pause"]])
def test_a_slot_that_the_job_does_not_have_is_named(
    verb: Verb, job: Path, words: list[str]
) -> None:
    name, *options = words
    for slot in ("a.example", "a.exmaple"):
        answer = verb(name, job, "--slot", slot, *options)
        missing = f"no slot '{slot}': no request of it is pending or failed\n"
        assert answer.code == 0
        assert answer.err == ("" if slot == "a.example" else f"the job has {missing}")


@pytest.mark.parametrize(
    ("database", "words"),
    [
        ("queue", ["list"]),
        ("queue", ["check", "https://a.example/1"]),
        ("later", ["list"]),
        ("later", ["check", "https://a.example/1"]),
        ("failures", ["list", "--failed"]),
        ("failures", ["info"]),
    ],
)
def test_a_job_with_a_wrong_number_of_requests_in_a_page_is_refused(
    verb: Verb, tmp_path: Path, database: str, words: list[str]
) -> None:
    """The mark fits the file, as it does when the disk has changed it."""
    name, *more = words
    store = job_of_600(tmp_path / "job", database) / "bloomdupe"
    drop_entries(store)
    message = f"data.mdb: 597 {database} records stand where 600 were written"
    answer = verb(name, tmp_path / "job", *more)
    assert answer.code == 1
    assert message in answer.err
    answer = verb("backup", tmp_path / "job", tmp_path / "copy")
    assert answer.code == 1
    assert message in answer.err
    assert not (tmp_path / "copy").exists()


def job_of_600(jobdir: Path, database: str) -> Path:
    """Make a job with 600 requests, all of them in this database."""
    urls = [f"https://h{number % 3}.test/{number}/{'x' * 100}" for number in range(600)]
    when = 4e9 if database == "later" else None
    with BloomFilter.open(jobdir / "bloomdupe", 1_000, identity=IDENTITY) as seen:
        frontier, serializer = Frontier(seen), Serializer(SPIDER)
        for url in urls if database != "failures" else urls[:1]:
            payload = serializer.dump(Request(url))
            frontier.push(url.split("/")[2], 0, payload, not_before=when)
        frontier.checkpoint()
        store = seen.share_store()
        assert store is not None
        if database == "failures":
            failure = Failure("", "timeout", None, "", 1, NOW, None, False, "h", 0, b"")
            store.commit(failures_part([failure._replace(url=url) for url in urls]))
    return jobdir


def drop_entries(store: Path) -> None:
    """Drop three entries of a leaf with requests, and let the mark fit."""
    data = bytearray((store / "data.mdb").read_bytes())
    leaf = next(
        at
        for at in range(8192, len(data), 4096)
        if data[at + 10] == 2 and data[at : at + 4096].count(b"x" * 100) > 5
    )
    lower = int.from_bytes(data[leaf + 12 : leaf + 14], "little")
    data[leaf + 12 : leaf + 14] = (lower - 6).to_bytes(2, "little")
    (store / "data.mdb").write_bytes(data)
    fit_mark(store)


def fit_mark(store: Path) -> None:
    """Let the mark of a data file fit it, as if nothing had changed it."""
    mark = json.loads((store / "clean.json").read_text())
    found = (store / "data.mdb").stat()
    mark |= {
        "size": found.st_size,
        "modified": found.st_mtime_ns,
        "changed": found.st_ctime_ns,
    }
    (store / "clean.json").write_text(json.dumps(mark).ljust(MARK_BYTES))


def test_a_store_that_was_never_a_crawls_has_no_requests(
    verb: Verb, tmp_path: Path
) -> None:
    with BloomFilter.open(tmp_path / "job/bloomdupe", 100) as seen:
        seen.add("x")
    assert verb("list", tmp_path / "job") == (0, "", "")
    report = json.loads(verb("info", tmp_path / "job", "--json").out)
    assert report["job"] is None


# info


def test_info_and_list_look_at_a_running_job(job: Path) -> None:
    with BloomFilter.open(job / "bloomdupe"):  # in this process
        shown = call("info", str(job), cwd=job).stdout
        assert f"in use by process {os.getpid()}" in shown
        assert call("list", str(job), cwd=job).stdout.count("\n") == 3000
