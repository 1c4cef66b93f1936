"""Looks at a shared crawl: in turns, by a bounded history, over runs of workers."""

from __future__ import annotations

from itertools import count
from typing import Any

import msgpack  # type: ignore[import-untyped]
from support.redis_server import RedisServer
from support.waiting import until

from bloomdupe.crawl.engines.on_redis.shared_look import SharedLook, unpacked
from bloomdupe.crawl.progress.history import Point, surplus
from bloomdupe.redis.frontier_reader import FrontierReader, RunOfWorkers
from bloomdupe.redis.shared_frontier import SharedFrontier

LONG = 3_600.0
"""Seconds; no lease of this length runs out in a test, and no turn comes twice."""


def opened(url: str) -> SharedFrontier:
    return SharedFrontier.open(url, 1_000, partitions=2, lease_seconds=LONG)


def runs(url: str) -> list[RunOfWorkers]:
    with FrontierReader.open(url) as reader:
        return reader.history(0)[2]


def test_one_worker_has_the_turn_and_all_know_its_look(url: str) -> None:
    with opened(url) as one, opened(url) as two:
        one.tend()
        looks = [SharedLook(frontier, LONG, 0) for frontier in (one, two)]
        first = looks[0].look()
        assert first is not None
        assert [look.look() for look in looks] == [first] * 2
        until(lambda: one.look(LONG).now > first.time)  # in milliseconds
        last = looks[1].look(now=True)  # such as at its end
        assert last is not None
        assert last.time > first.time
        assert [look.look() for look in looks] == [last] * 2
        assert [*map(unpacked, one.history(0)[1])] == [first, last]


def test_the_times_are_seconds_of_redis(
    url: str, server: RedisServer, name: str
) -> None:
    with opened(url) as one, server.client() as client:
        one.tend()
        before = client.time()[0]
        turn = one.look(LONG)
        after = client.time()[0] + 1
        assert turn.mine
        assert before <= turn.now <= after
        following = client.hget(f"bloomdupe:{{{name}}}", "next_look")
        assert abs(int(following) / 1000 - turn.now - LONG) < 0.01


def test_nothing_is_kept_of_a_crawl_that_was_removed(
    url: str, server: RedisServer
) -> None:
    with opened(url) as one:
        look = SharedLook(one, LONG, 0)
        with server.client() as client:
            client.flushall()
            assert look.look() is None
            assert client.dbsize() == 0
        one._present = False


def test_the_history_thins_out(url: str) -> None:
    with opened(url) as one:
        one.tend()
        now = one.look(LONG).now
        nothing: dict[str, Any] = dict.fromkeys(Point._fields, 0)
        for seconds in range(7_200, 60, -5):
            values = {"time": now - seconds, "run": 1, "statuses": []}
            point = Point(**{**nothing, **values})
            one.look(LONG, msgpack.packb(list(point)), point.moment[0])
        before = [unpacked(look).moment for look in one.history(0)[1]]
        last = SharedLook(one, LONG, 0).look(now=True)
        assert last is not None
        gone = set(surplus(before, last.time))
        assert len(gone) > 1_000
        left = [unpacked(look).moment for look in one.history(0)[1]]
        assert left == [*(one for one in before if one not in gone), last.moment]


def test_a_run_lasts_as_long_as_a_worker_is_there(
    url: str, server: RedisServer, name: str
) -> None:
    one, two = opened(url), opened(url)
    numbers = count(1)
    one.tend()
    two.tend()
    one.close(reason="shutdown")
    (run,) = runs(url)
    assert (run.number, run.ended, run.how) == (next(numbers), None, "open")
    two.close(reason="finished")
    (run,) = runs(url)
    assert run.how == "finished"
    assert run.ended is not None
    assert run.ended >= run.begun
    three = opened(url)
    three.tend()
    server.end_leases(name)  # as if it were killed
    four = opened(url)
    four.tend()
    three.close(reason="finished")  # it is not there any more
    four.close(reason="shutdown")
    assert [run.how for run in runs(url)] == ["finished", "open", "shutdown"]
