"""Failed requests: listed, checked, and requeued by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from scrapy import Request
from scrapy.utils.request import fingerprint
from support.jobs import SPIDER, Verb, make_job, urls
from support.monitored_jobs import add_failures

from bloomdupe.crawl.state.failures import Failure
from bloomdupe.requests.serializer import Serializer

A, B = "https://a.example/", "https://b.example/"
WHY = {
    f"{A}1": ("status", 503),
    f"{A}2": ("timeout", None),
    f"{B}3": ("status", 404),
    f"{B}4": ("callback", 200),
}


def failures() -> Iterator[Failure]:
    """Yield the failures above, a second after each other; the last cannot wait."""
    for at, (url, (reason, status)) in enumerate(WHY.items()):
        request = Request(url, priority=3)
        payload = None if url.endswith("4") else Serializer(SPIDER).dump(request)
        yield Failure(
            url, reason, status, "why\n", 2, 1_700_000_000.0 + at, A, False,
            url.split("/")[2], 3, payload,
        )  # fmt: skip


@pytest.fixture
def job(tmp_path: Path) -> Path:
    job = make_job(tmp_path / "job", [], done=WHY)
    add_failures(job, failures(), lambda url: fingerprint(Request(url)))
    return job


@pytest.mark.parametrize(
    ("options", "listed"),
    [
        ((), "4321"),
        (("--reason", "503,timeout"), "21"),
        (("--pattern", "[34]$", "--limit", "1"), "4"),
        (("--reason", "dns"), ""),
    ],
)
def test_failed_requests_are_listed(
    verb: Verb, job: Path, options: tuple[str, ...], listed: str
) -> None:
    answer = verb("list", job, "--failed", *options)
    assert answer.code == 0
    assert re.findall(r"example/(\d)", answer.out) == list(listed)
    assert answer.out.count("\n") == len(listed)
    answer = verb("list", job, "--failed", *options, "--json")
    found = [json.loads(line) for line in answer.out.splitlines()]
    assert [one["url"][-1] for one in found] == list(listed)
    assert all(one["times"] == 2 and one["parent"] == A for one in found)


def test_failures_are_grouped_by_reason_exception_and_slot(
    verb: Verb, job: Path
) -> None:
    first, *_ = failures()
    add_failures(
        job,
        (
            first._replace(url=f"{A}{n}", reason="callback", detail="ValueError: x")
            for n in range(10, 13)
        ),
    )
    answer = verb("list", job, "--failed", "--summary")
    assert answer.out.splitlines() == [
        "3  callback 503  ValueError  a.example",
        "1  callback 200  why\\n  b.example",
        "1  HTTP 404  b.example",
        "1  timeout  why\\n  a.example",
        "1  HTTP 503  a.example",
    ]
    lines = verb("list", job, "--failed", "--summary", "--reason", "503", "--json").out
    assert [json.loads(line)["requests"] for line in lines.splitlines()] == [3, 1]
    # On all screens, every reason is there.
    shown = ["7", "4 callback", "1 HTTP 404", "1 timeout", "1 HTTP 503"]
    assert ", ".join(shown) in verb("info", job).out
    assert "  ".join(shown) in verb("top", job).out


def test_requeue_makes_a_failed_request_pending_once(verb: Verb, job: Path) -> None:
    answer = verb("requeue", job, "--failed", "--reason", "status")
    assert (answer.code, answer.out) == (0, "2 pending now\n")
    answer = verb("requeue", job, "--failed")  # only pages that have not come
    assert answer.out == "1 pending now\n2 were pending already: not added\n"
    answer = verb("requeue", job, "--failed", "--reason", "status,timeout,callback")
    assert answer.code == 1
    assert answer.out.splitlines()[:3] == [
        "0 pending now",
        "3 were pending already: not added",
        "1 could not be read:",
    ]
    assert f"{B}4: it could not be stored" in answer.out
    assert sorted(urls(verb, job)) == [f"{A}1", f"{A}2", f"{B}3"]
    assert re.findall(r"example/(\d)", verb("list", job, "--failed").out) == ["4"]
    assert " 3  GET  parse  " in verb("list", job).out  # its priority
    assert verb("drop", job, f"{A}1").out == "1 removed, 2 pending\n"
    assert verb("drop", job, f"{A}1").out == "0 removed, 2 pending\n"
    # It has failed, as before it was pending again.
    assert re.findall(r"example/(\d)", verb("list", job, "--failed").out) == ["4", "1"]
    assert verb("verify", job).code == 0


def test_a_page_that_is_requeued_is_not_requeued_once_more(
    verb: Verb, job: Path
) -> None:
    assert verb("requeue", job, f"{A}1").out == "1 pending now\n"
    said = verb("requeue", job, "--failed", "--reason", "503,timeout").out
    assert said == "1 pending now\n"


def test_drop_knows_failed_requests_of_one_url_apart(
    verb: Verb, tmp_path: Path
) -> None:
    """Those of an API, say; and an ordinary request for the same URL beside them."""
    queries = [Request(A, method="POST", body=f"{n}") for n in range(3)]
    queries += [Request(A, meta={"cookiejar": n}) for n in range(2)]
    payloads = [Serializer(SPIDER).dump(query) for query in queries]
    first, *_ = failures()
    job = make_job(tmp_path / "job", [A])
    add_failures(job, (first._replace(url=A, payload=one) for one in payloads))
    again = ("requeue", job, "--failed")
    assert verb(*again).out == "5 pending now\n"
    assert verb("drop", job, A).out == "3 removed, 3 pending\n"  # all but the forms
    said = verb(*again).out
    assert said == "2 pending now\n3 were pending already: not added\n"
    assert verb("drop", job, "--pattern", ".").out == "5 removed, 0 pending\n"
    assert verb(*again).out == "5 pending now\n"
