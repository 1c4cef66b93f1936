"""``list`` and ``info``: their output for a job, compared with its contents."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from scrapy import Request
from support.jobs import SPIDER, Verb, make_job

from bloomdupe import BloomFilter

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


# info
