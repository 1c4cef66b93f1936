"""News that workers share: each worker learns of the changes by the rest."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.redis_server import LOGGED, RedisServer

from bloomdupe.errors import StoreAccessError, StoreUnreachableError
from bloomdupe.redis.shared_frontier import SharedFrontier


def frontier(url: str) -> SharedFrontier:
    return SharedFrontier.open(url, 100, partitions=1)


def test_each_worker_gets_the_cookies_that_are_new_to_it(url: str) -> None:
    with frontier(url) as one, frontier(url) as two, frontier(url) as three:
        one.news.keep([(b"a", b"a of one"), (b"b", b"b of one")])
        assert one.news.read() == []
        assert two.news.read() == [b"a of one", b"b of one"]
        two.news.keep([(b"a", b"a of two")])
        assert two.news.read() == []
        assert one.news.read() == [b"a of two"]
        assert three.news.read() == [b"b of one", b"a of two"]
        assert three.news.read() == []


def test_many_of_any_bytes(url: str) -> None:
    many = [(b"%d" % n, bytes([n % 256]) * (n % 7)) for n in range(2_000)]
    with frontier(url) as one, frontier(url) as two:
        one.news.keep(many)
        assert two.news.read() == [kept for _, kept in many]


def test_news_that_were_read_in_part_are_read_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [(b"%d" % n, b"%d" % n) for n in range(600)]
    with frontier(url) as one, frontier(url) as two:
        one.news.keep(many)
        run, asked = two._server.run, count(1)

        def refused(*words: Any) -> Any:
            if next(asked) == 2:
                raise StoreAccessError("BUSY")
            return run(*words)

        monkeypatch.setattr(two._server, "run", refused)
        with pytest.raises(StoreAccessError):
            two.news.read()
        assert two.news.read() == [text for _, text in many]


def test_a_server_that_goes_back_is_asked_anew(tmp_path: Path) -> None:
    """It counts from an earlier number, and no later change must be missed."""
    with (
        RedisServer(tmp_path, *LOGGED) as server,
        frontier(server.url("job")) as one,
        frontier(server.url("job")) as two,
    ):
        one.news.keep([(b"a", b"first")])
        back = server.written
        one.news.keep([(b"b", b"lost"), (b"c", b"lost")])
        assert two.news.read() == [b"first", b"lost", b"lost"]
        server.kill()
        server.cut_back(*back)
        server.start()
        for each in (one, two):
            with pytest.raises(StoreUnreachableError):
                each.tend()
            each.tend()
        one.news.keep([(b"d", b"later")])
        assert two.news.read() == [b"first", b"later"]
