"""The output of the command line about workers: real processes, one is killed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from spiders.workers import All
from support.crawl import Crawl
from support.redis_server import RedisServer
from support.site import Pages, graph

pytestmark = pytest.mark.slow

SIZE = 300
QUICK = 40
"""Pages that do not wait for the test."""


@pytest.fixture
def pages() -> Pages:
    return graph(SIZE)


def see(crawl: Crawl, verb: str, *options: str) -> Any:
    return json.loads(crawl.bloomdupe(verb, crawl.engine.job, "--json", *options))


def test_a_crawl_seen_from_its_beginning_to_its_end(
    crawl: Crawl, redis: RedisServer
) -> None:
    def job() -> Any:
        return see(crawl, "info")["job"]

    crawl.site.hold(*(f"/{number}" for number in range(QUICK, SIZE)))
    one, two = (crawl.start(All) for _ in range(2))

    def has_begun() -> bool:
        # A partition with a request in progress is not given to another worker yet.
        now = job()
        return len(now["workers"]) == 2 and now["taken_in"] > QUICK

    for worker in (one, two):
        worker.until_logged("This is worker")
        assert "0 URLs seen before (by this worker; Redis knows" in worker.log
    one.until(has_begun)
    found = job()
    assert found["state"] == "running"
    owned = sum(w["partitions"] for w in found["workers"])
    assert owned + found["unowned_partitions"] == 8
    assert found["done"] <= len(crawl.site.log)
    assert found["pending"] + found["leased"] > 0
    assert found["done"] + found["leased"] + found["pending"] == found["taken_in"]
    listed = crawl.bloomdupe("list", crawl.engine.job, "--json").splitlines()
    owed = [json.loads(line) for line in listed]
    assert {o["callback"] for o in owed} == {"parse"}
    names = {worker["name"] for worker in found["workers"]}
    assert {o["worker"] for o in owed if "worker" in o} <= names
    assert all(name in one.log + two.log for name in names)
    seen = see(crawl, "top", "--interval", "0.1")
    assert {w["name"] for w in seen["workers"]} == names
    one.kill()
    redis.end_leases("crawl")
    two.until(lambda: [w["partitions"] for w in job()["workers"]] == [8])
    (left,) = job()["workers"]
    assert left["name"] in two.log
    crawl.site.release()
    two.finish()
    found = job()
    assert (found["state"], found["workers"]) == ("finished", [])
    assert (found["pending"], found["leased"]) == (0, 0)
    # The start page comes once as a start request, and once as a link.
    assert found["done"] in (SIZE, SIZE + 1)
    assert crawl.bloomdupe("list", crawl.engine.job) == ""
