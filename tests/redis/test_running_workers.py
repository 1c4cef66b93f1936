"""Workers say that they are running: for how long, with how much, under which name."""

from __future__ import annotations

from typing import Any

import pytest
from support.redis_server import RedisServer

from bloomdupe.errors import StoreError
from bloomdupe.redis.partition import Offer
from bloomdupe.redis.shared_frontier import SharedFrontier

LONG = 3_600.0
"""Seconds; no lease of this length runs out in a test."""


def opened(url: str, worker: str, **options: Any) -> SharedFrontier:
    options = {"worker": worker, "lease_seconds": LONG, **options}
    return SharedFrontier.open(url, 1_000, partitions=4, **options)


def test_a_sign_of_life_costs_the_same_with_many_workers(
    server: RedisServer, url: str
) -> None:
    many = [opened(url, f"worker {number}") for number in range(8)]
    costs = set()
    with server.client() as judge:
        for worker in many:
            worker.look_around()  # it has come: it shares the partitions
            judge.config_resetstat()
            worker._announce()
            counted: Any = judge.info("commandstats")
            costs.add(sum(each["calls"] for each in counted.values()))
    assert len(costs) == 1
    assert {worker._announce().workers for worker in many} == {len(many)}
    for worker in many:
        worker.close()


def test_nothing_is_left_of_workers_that_have_ended(
    server: RedisServer, url: str, name: str
) -> None:
    with opened(url, "one") as one, opened(url, "two") as two:
        one.tend()
        two.tend()
        assert two.workers() == ["one", "two"]
        server.end_leases(name, "one")  # as if it were killed
        assert two.workers() == ["two"]
        two.tend()
    with server.client() as client:
        assert not client.exists(f"bloomdupe:{{{name}}}:workers")


def test_a_crawl_stays_open_until_the_worker_that_stays_ends(url: str) -> None:
    with opened(url, "one") as one:
        one.tend()
        stays = [one.stays]
        with opened(url, "two", stays=True) as two:
            two.tend()
            one.tend()
            stays.append(one.stays)
        stays.append(one.stays)
    assert stays == [False, True, False]


def test_a_round_begins_when_all_workers_have_ended(
    server: RedisServer, url: str, name: str
) -> None:
    rounds = []

    def begin(worker: str) -> SharedFrontier:
        one = opened(url, worker)
        rounds.append(one.begin_round(again=True))
        return one

    one, two = begin("one"), begin("two")
    one.close(reason="finished")
    three = begin("three")  # "two" is there
    two.close(reason="shutdown")
    three.close(reason="finished")
    four, five = begin("four"), begin("five")
    with server.client() as client:
        client.hset(f"bloomdupe:{{{name}}}", "round", 1)  # it has gone back
        four.tend()
        assert rounds == [1, 1, 1, 2, 2]
        assert four.round == 2
        five.close(reason="shutdown")
        four.close(reason="shutdown")
        begin("six").close()
        assert rounds[-1] == 2
        # An emptied Redis gets no head.
        seven = begin("seven")
        client.flushall()
        with pytest.raises(StoreError, match="no crawl of this name"):
            seven.look_around()
        seven.close(reason="finished")
        assert not client.exists(f"bloomdupe:{{{name}}}")


def test_a_round_is_not_finished_while_a_worker_goes_on(
    server: RedisServer, url: str, name: str
) -> None:
    """Its ``start()`` has waited when the other one found nothing pending."""
    one, two = opened(url, "one"), opened(url, "two")
    assert [each.begin_round(again=True) for each in (one, two)] == [1, 1]
    two.close(reason="finished")
    one.tend()
    one.offer([Offer("host", b"start page", b"request")])
    assert one.settle((lease, []) for lease in one.lease(1)) == []
    server.end_leases(name, "one")  # as if it were killed
    three = opened(url, "three")
    assert three.begin_round(again=True) == 1
    three.close(reason="finished")
    with opened(url, "four") as four:
        assert four.begin_round(again=True) == 2


def test_a_worker_that_was_stopped_gets_the_news_of_a_new_round(
    server: RedisServer, url: str, name: str
) -> None:
    with opened(url, "one") as one, opened(url, "two") as two:
        assert [each.begin_round(again=True) for each in (one, two)] == [1, 1]
        two.news.keep([(b"%d" % n, b"of the first round") for n in range(3)])
        assert len(one.news.read()) == 3
        server.end_leases(name, "one")  # as if it were stopped
        two.close(reason="finished")
        with opened(url, "three") as three:
            assert three.begin_round(again=True) == 2
            assert three.news.read() == []
            three.news.keep([(b"0", b"of the second round")])
            assert one.news.read() == [b"of the second round"]
