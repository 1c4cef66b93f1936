"""Cookies that workers share: each worker learns of the changes by the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.redis_server import LOGGED, RedisServer

from bloomdupe.errors import StoreUnreachableError
from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from pathlib import Path


def frontier(url: str) -> SharedFrontier:
    return SharedFrontier.open(url, 100, partitions=1)


def test_each_worker_gets_the_cookies_that_are_new_to_it(url: str) -> None:
    with frontier(url) as one, frontier(url) as two, frontier(url) as three:
        one.cookies.keep([(b"a", b"a of one"), (b"b", b"b of one")])
        assert one.cookies.news() == []
        assert two.cookies.news() == [b"a of one", b"b of one"]
        two.cookies.keep([(b"a", b"a of two")])
        assert two.cookies.news() == []
        assert one.cookies.news() == [b"a of two"]
        assert three.cookies.news() == [b"b of one", b"a of two"]
        assert three.cookies.news() == []


def test_many_of_any_bytes(url: str) -> None:
    many = [(b"%d" % n, bytes([n % 256]) * (n % 7)) for n in range(2_000)]
    with frontier(url) as one, frontier(url) as two:
        one.cookies.keep(many)
        assert two.cookies.news() == [kept for _, kept in many]


def test_a_server_that_goes_back_is_asked_anew(tmp_path: Path) -> None:
    """It counts from an earlier number, and no later change must be missed."""
    with (
        RedisServer(tmp_path, *LOGGED) as server,
        frontier(server.url("job")) as one,
        frontier(server.url("job")) as two,
    ):
        one.cookies.keep([(b"a", b"first")])
        back = server.written
        one.cookies.keep([(b"b", b"lost"), (b"c", b"lost")])
        assert two.cookies.news() == [b"first", b"lost", b"lost"]
        server.kill()
        server.cut_back(*back)
        server.start()
        for each in (one, two):
            with pytest.raises(StoreUnreachableError):
                each.tend()
            each.tend()
        one.cookies.keep([(b"d", b"later")])
        assert two.cookies.news() == [b"first", b"later"]
