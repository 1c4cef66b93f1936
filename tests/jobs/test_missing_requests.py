"""A job of which a page has lost requests: each verb says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from scrapy import Request
from support.jobs import SPIDER, Verb, make_job
from support.monitored_jobs import NOW, failures_part

from bloomdupe import BloomFilter
from bloomdupe.crawl.state.failures import Failure
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.requests.serializer import Serializer
from bloomdupe.store.lmdb import open_data

URLS = [f"https://h{number % 3}.test/{number}/{'x' * 100}" for number in range(600)]


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
    verb: Verb,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database: str,
    words: list[str],
) -> None:
    """The mark fits the file, as it does when the disk has changed it."""
    name, *more = words
    drop_entries(job_of_600(tmp_path / "job", database) / "bloomdupe/data.mdb")
    marked = open_data.Marked(trusted=True, transaction=0)
    monkeypatch.setattr(open_data, "read_mark", lambda _: marked)
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
    make_job(jobdir, URLS if database == "queue" else [])
    failure = Failure("", "timeout", None, "", 1, NOW, None, False, "h", 0, b"")
    with BloomFilter.open(jobdir / "bloomdupe") as seen:
        frontier, dump = Frontier(seen), Serializer(SPIDER).dump
        for url in URLS if database == "delayed" else []:
            frontier.push("h", 0, dump(Request(url)), not_before=4e9)
        failed = URLS if database == "failures" else []
        frontier.checkpoint(
            failures_part([failure._replace(url=url) for url in failed])
        )
    return jobdir


def drop_entries(file: Path) -> None:
    """Drop three entries of a leaf with requests."""
    data = bytearray(file.read_bytes())
    leaf = next(
        at
        for at in range(8192, len(data), 4096)
        if data[at + 10] == 2 and data[at : at + 4096].count(b"x" * 100) > 5
    )
    lower = int.from_bytes(data[leaf + 12 : leaf + 14], "little")
    data[leaf + 12 : leaf + 14] = (lower - 6).to_bytes(2, "little")
    file.write_bytes(data)
