"""A job of which a page has lost requests: each verb says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scrapy import Request
from support.jobs import IDENTITY, SPIDER, Verb
from support.monitored_jobs import NOW, failures_part

from bloomdupe import BloomFilter
from bloomdupe.crawl.state.failures import Failure
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.requests.serializer import Serializer
from bloomdupe.store.lmdb.open_data import MARK_BYTES


@pytest.mark.parametrize(
    ("database", "words"),
    [
        ("queue", ["list"]),
        ("queue", ["check", "https://a.example/1"]),
        ("delayed", ["list"]),
        ("delayed", ["check", "https://a.example/1"]),
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
    when = 4e9 if database == "delayed" else None
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
