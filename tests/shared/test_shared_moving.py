"""Crawls that move to Redis, to be shared: real processes, a real Redis, a real site.

The site's links say which pages are wanted, and its log says which pages were fetched.
"""

from __future__ import annotations

import json
import pickle
import re
import signal
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from scrapy import Request, Spider
from spiders.shared_moving import All
from spiders.workers import on
from support.crawl import Crawl
from support.forks import TESTS
from support.jobs import killed_after
from support.redis_server import RedisServer
from support.shared_data import needs_package
from support.site import graph

from bloomdupe.links.scrapy_redis import ScrapyRedisFingerprinter
from bloomdupe.redis.shared_frontier import SharedFrontier

pytestmark = pytest.mark.slow

SIZE = 150
THEIRS = "bloomdupe.links.scrapy_redis.ScrapyRedisFingerprinter"
FINGERPRINTER: dict[str, Any] = {"REQUEST_FINGERPRINTER_CLASS": THEIRS}
ALONE: dict[str, Any] = {
    "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.05,
    "BLOOMDUPE_REDIS_LEASE": None,
    "BLOOMDUPE_REDIS_PARTITIONS": None,
    "BLOOMDUPE_REDIS_URL": None,
    "JOBDIR": "job",
}
"""Settings of a crawl on disk."""


def project(crawl: Crawl, **settings: Any) -> None:
    """Write the project to which the verbs belong."""
    shared = {
        "SPIDER_MODULES": ["spiders.shared_moving"],
        "ADDONS": {"bloomdupe.Addon": 500},
        "BLOOMDUPE_EXPECTED_URLS": 10_000,
        "BLOOMDUPE_REDIS_PARTITIONS": 8,
        "FEEDS": crawl.settings["FEEDS"],
    }
    lines = (f"{name} = {value!r}\n" for name, value in {**shared, **settings}.items())
    (crawl.folder / "project.py").write_text("".join(lines))
    (crawl.folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    project(crawl)
    return crawl


@pytest.fixture
def keys(redis: RedisServer) -> str:
    """Return the URL of the keys of scrapy-redis."""
    return f"unix://{redis.socket}"


# A crawl that scrapy-redis has begun


def links_of(number: int) -> list[int]:
    page = str(graph(SIZE)[f"/{number}"])
    return [int(found) for found in re.findall(r"href='/(\d+)'", page)]


def begun(base: str, redis: RedisServer, done: int) -> tuple[set[int], set[int]]:
    """Leave the keys of a crawl by scrapy-redis; return the done and the pending pages.

    So many pages are done, in the order in which they were found.
    """
    found, at = [0], 0
    while at < done:
        found += [n for n in links_of(found[at]) if n not in found]
        at += 1
    fingerprint = ScrapyRedisFingerprinter().fingerprint
    with redis.client() as client:
        for place, number in enumerate(found):
            url = f"{base}/{number}"
            if number:  # a start page is not marked
                client.sadd("all:dupefilter", fingerprint(Request(url)).hex())
            if place >= done:
                given = as_dict(url, meta=on(number))
                client.zadd("all:requests", {pickle.dumps(given, protocol=-1): 0})
    return set(found[:done]), set(found[done:])


def as_dict(url: str, **arguments: Any) -> dict[str, Any]:
    return Request(url, **arguments).to_dict(spider=Spider("all"))


def paths(numbers: Iterable[int]) -> Counter[str]:
    return Counter(f"/{number}" for number in numbers)


WHOLE = paths(range(SIZE))


def taken(crawl: Crawl) -> Counter[str]:
    """Return the requests that the site got since the last time."""
    return Counter(crawl.site.take())


def pages_of(crawl: Crawl) -> Counter[str]:
    """Return the pages that the output is about."""
    return paths(item["page"] for item in crawl.items())


def test_workers_finish_a_crawl_of_scrapy_redis(
    crawl: Crawl, redis: RedisServer, keys: str
) -> None:
    done, waits = begun(crawl.site.base, redis, 60)
    project(crawl, **FINGERPRINTER)
    job = crawl.engine.job
    out = crawl.bloomdupe("import", job, keys, "--spider", "all")
    assert out.startswith(
        f"{len(waits)} requests pending now\n"
        f"{len(done | waits) - 1} URLs count as seen\n"
    )
    # Once more: nothing is taken in twice.
    out = crawl.bloomdupe("import", job, keys)
    assert out.startswith(
        f"0 requests pending now\n{len(waits)} were imported before\n"
    )
    crawl.finish(All, 2, **FINGERPRINTER)
    # The start page was never marked, so it is fetched once more.
    expected = paths(set(range(SIZE)) - done | {0})
    assert taken(crawl) == expected
    assert pages_of(crawl) == expected


KILLS = [
    ("bloomdupe.redis.shared_import:Imports.begin", 1),
    ("bloomdupe.redis.open_frontier:OpenFrontier.offer", 3),
    ("bloomdupe.redis.shared_import:Imports.keep", 4),
    ("bloomdupe.redis.open_frontier:OpenFrontier.offer", 5),
    ("bloomdupe.redis.shared_import:Imports.mark", 1),
    ("bloomdupe.redis.shared_import:Imports.mark", 3),
]
"""The steps after which an import is killed, one import after the other."""


def test_an_import_that_is_killed_goes_on(
    crawl: Crawl, redis: RedisServer, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests with dont_filter, of which no filter can tell that they were taken."""
    project(crawl, **FINGERPRINTER)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    job = crawl.engine.job
    fingerprint = ScrapyRedisFingerprinter().fingerprint
    waits, seen = 12_000, 15_000
    with redis.client() as client:
        given = [
            as_dict("https://a.example/", meta={"n": n}, dont_filter=True)
            for n in range(waits)
        ]
        given.append(as_dict("https://a.example/other"))
        client.zadd(
            "all:requests", {pickle.dumps(one, protocol=-1): 0 for one in given}
        )
        marks = [Request(f"https://a.example/{n}") for n in range(seen)]
        marks.append(Request("https://a.example/other"))
        client.sadd("all:dupefilter", *(fingerprint(one).hex() for one in marks))
        words = ["import", job, keys, "--spider", "all"]
        for step, times in KILLS:
            killed_after(step, times, *words, cwd=crawl.folder)
            assert client.hexists("bloomdupe:{crawl}", "importing")
        refused = crawl.bloomdupe("import", job, "-", "--spider", "x", code=2)
        assert "is that of spider 'all'" in refused
        crawl.bloomdupe("import", job, keys)
        assert not client.hexists("bloomdupe:{crawl}", "importing")
    with SharedFrontier.open(job, lease_seconds=600) as one:
        one.tend()
        leases = one.lease(waits * 2, waits * 2)
        payloads = {lease.payload for lease in leases}
        assert len(leases) == len(payloads) == waits + 1
        assert all(one.imports.knows([fingerprint(each) for each in marks]))


def test_no_worker_runs_during_an_import(
    crawl: Crawl, redis: RedisServer, keys: str
) -> None:
    begun(crawl.site.base, redis, 60)
    project(crawl, **FINGERPRINTER)
    crawl.settings |= FINGERPRINTER
    # A worker that is there, and stopped for a while, knows nothing of it.
    early = crawl.start(All, DOWNLOAD_DELAY=600, BLOOMDUPE_REDIS_LEASE=20)
    early.until_requested(1)
    refused = crawl.bloomdupe("import", crawl.engine.job, keys, code=1)
    assert "workers are there (1), which do not know the imported URLs" in refused
    early.send(signal.SIGSTOP)
    redis.end_leases("crawl")
    crawl.bloomdupe("import", crawl.engine.job, keys)
    with redis.client() as client:
        client.hset("bloomdupe:{crawl}", "importing", 1)  # as if it had not ended
    assert "an import into it has not ended" in crawl.run(All, status=1).log
    early.send(signal.SIGCONT)
    assert early.wait().finish_reason != "finished"


def list_of(crawl: Crawl, *lines: str) -> str:
    """Write a list of URLs to be imported; return its name."""
    (crawl.folder / "lines").write_text("".join(f"{line}\n" for line in lines))
    return "lines"


def test_a_list_comes_in_while_workers_work(crawl: Crawl) -> None:
    crawl.site.hold(f"/{SIZE - 1}")  # so the crawl does not end before
    worker = crawl.start(All)
    worker.until_requested(f"/{SIZE - 1}")
    # In the slot that the spider gives it: each slot knows the pages seen in it.
    known = json.dumps({"url": f"{crawl.site.base}/1", "slot": "1"})
    file = list_of(crawl, known, f"{crawl.site.base}/extra")
    out = crawl.bloomdupe("import", crawl.engine.job, file)
    assert out == "1 request pending now\n1 was seen before: skipped\n"
    crawl.site.release()
    worker.finish()
    assert taken(crawl) == WHOLE + Counter(["/extra"])


def test_import_refuses_settings_that_do_not_fit_workers(crawl: Crawl) -> None:
    words = ["import", crawl.engine.job, list_of(crawl, f"{crawl.site.base}/1")]
    assert "--spider NAME names the spider" in crawl.bloomdupe(*words, code=2)
    project(crawl, BLOOMDUPE_EXACT=1)
    said = crawl.bloomdupe(*words, "--spider", "all", code=2)
    assert "BLOOMDUPE_EXACT = 1 does not work with BLOOMDUPE_REDIS_URL" in said
    project(crawl)
    crawl.bloomdupe(*words, "--spider", "all")
    project(crawl, FEEDS={"others.jsonl": {"format": "jsonlines"}})
    assert "FEEDS: " in crawl.bloomdupe(*words, code=1)
    project(crawl)
    said = crawl.bloomdupe(*words, "--spider", "other", code=2)
    assert "is that of spider 'all'" in said
    said = crawl.bloomdupe("import", crawl.engine.job, code=2)
    assert "SOURCE is missing" in said


# Jobs of one process


def half_of(crawl: Crawl, after: int = SIZE // 3, **settings: Any) -> Counter[str]:
    """Stop a worker in good order when so much is done; return its requests."""
    run = crawl.interrupted(All, after=after, **settings)
    crawl.site.take()
    assert after < len(run.requested) < SIZE
    return Counter(run.requested)


def test_a_job_that_scrapy_has_stopped_goes_on_shared(crawl: Crawl) -> None:
    first = half_of(crawl, **{**ALONE, "ADDONS": None})
    crawl.bloomdupe("import", crawl.engine.job, "job", "--spider", "all")
    crawl.finish(All, 2)
    # Scrapy does not mark the start page.
    assert first + taken(crawl) == WHOLE + paths({0})


def test_a_job_goes_on_shared(crawl: Crawl) -> None:
    # Another capacity than the workers': the filter comes over as it is.
    other = {**ALONE, "BLOOMDUPE_EXPECTED_URLS": None}
    first = half_of(crawl, **other)
    crawl.bloomdupe("import", crawl.engine.job, "job")
    crawl.finish(All)
    assert first + taken(crawl) == WHOLE


def test_workers_of_scrapy_redis_are_followed_by_ours(crawl: Crawl, keys: str) -> None:
    needs_package("scrapy_redis")
    theirs: dict[str, Any] = {
        "ADDONS": None,
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "REDIS_URL": keys,
        "SCHEDULER_PERSIST": True,
        "CLOSESPIDER_PAGECOUNT": SIZE // 5,
    }
    for worker in [crawl.start(All, **theirs) for _ in range(2)]:
        assert worker.wait().status == 0, worker.log
    first = taken(crawl)
    assert 0 < len(first) < SIZE
    project(crawl, **FINGERPRINTER)
    crawl.bloomdupe("import", crawl.engine.job, keys, "--spider", "all")
    crawl.finish(All, 2, **FINGERPRINTER)
    everything = first + taken(crawl)
    del everything["/0"]  # a start page is not marked there
    assert everything == paths(range(1, SIZE))
