"""What is refused, and a server in trouble: clear errors, and nothing half done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.connection import AbstractConnection
from support.redis_server import RedisServer

from bloomdupe import BloomFilter
from bloomdupe.errors import (
    SettingError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreMismatchError,
    StoreUnreachableError,
)
from bloomdupe.store.redis.address import Address

PASSWORD = "open-sesame"  # noqa: S105 - of a server that lives for a test
KEYS = [f"https://www.example/{number}" for number in range(3_000)]


# The URL


@pytest.mark.parametrize(
    ("url", "shown", "head"),
    [
        ("redis://host:6379/0#seen", "redis://host:6379/0#seen", "bloomdupe:{seen}"),
        ("rediss://me:pw@host#a", "rediss://me@host#a", "bloomdupe:{a}"),
        ("redis://:pw@[::1]:7/2#a b", "redis://[::1]:7/2#a b", "bloomdupe:{a b}"),
        ("unix:///s?password=pw#a%20b", "unix:///s#a%20b", "bloomdupe:{a b}"),
    ],
)
def test_a_url_names_server_and_filter(url: str, shown: str, head: str) -> None:
    address = Address.of(url)
    assert address.shown == shown
    assert address.head == head
    assert "#" not in address.server


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://:open-sesame@host:6379/0", "must end in the name of the crawl"),
        ("redis://:open-sesame@host/0#a{b}", "must have no braces"),
        ("redis://:open-sesame@host:port#a", "cannot be read"),
        ("redis://:12#open-sesame@host/0#a", "In a password, / "),
        ("redis://:12/open-sesame@host/0#a", "In a password, / "),
        ("Redis://:open-sesame@host/0#a", "must specify one of the following schemes"),
        ("redis://:open-sesame@host?decode_responses=1#a", "blocks are bytes"),
        ("redis://:open-sesame@127.0.0.1:1?foo=bar#a", "argument 'foo'"),
        ("redis://:open-sesame@host#\udcff", "must end in the name"),
        *(
            (f"redis+sentinel://me:open-sesame@{place}", "such as redis.sentinel://h")
            for place in ("h:1#a", "h:1/#a", "h/a/b#a", "h,/a#a", "/a/0#a")
        ),
    ],
)
def test_a_url_that_cannot_be_used(url: str, message: str) -> None:
    with pytest.raises(SettingError, match=message) as raised:
        BloomFilter.open(url, 100)
    assert PASSWORD not in str(raised.value)


# Another filter than the one asked for

OTHER_FORMAT = json.dumps({"format": 1, "made": ""})


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        (("SET", "HEAD", "x"), StoreMismatchError, "something else than a filter"),
        (("HSET", "HEAD", "header", OTHER_FORMAT), StoreMismatchError, "has format 1"),
        (("HSET", "HEAD", "layers", "{"), StoreDamagedError, "not as it was written"),
    ],
)
def test_keys_of_other_programs_are_refused(
    redis_server: RedisServer,
    url: str,
    command: tuple[str, ...],
    error: type[Exception],
    message: str,
) -> None:
    head = Address.of(url).head
    with redis_server.client() as other:
        if "something else" not in message:
            BloomFilter.open(url, 100).close()
        other.execute_command(*(head if word == "HEAD" else word for word in command))
        before = other.execute_command("DUMP", head)
        for capacity in (None, 100):
            with pytest.raises(error, match=message):
                BloomFilter.open(url, capacity)
        assert other.execute_command("DUMP", head) == before


def test_a_filter_that_is_deleted_while_in_use(
    redis_server: RedisServer, url: str
) -> None:
    """Its blocks, which are left, are not taken for those of the next filter."""
    with BloomFilter.open(url, 1_000) as seen, redis_server.client() as other:
        seen.update(KEYS[:100])
        other.delete(Address.of(url).head)
        uses: list[Callable[[], object]] = [
            lambda: seen.add("a"),
            lambda: "a" in seen,
            lambda: len(seen),
        ]
        for use in uses:
            with pytest.raises(StoreError, match=r"is gone\. It was deleted, or Redis"):
                use()
        with BloomFilter.open(url, 1_000, key=seen.parameters.key) as anew:
            assert anew.update(KEYS[:100]) == 100
        with BloomFilter.open(url, 1_000) as same_name:
            assert not seen.add(KEYS[0])  # it has the same key, so it is the same
            other.delete(Address.of(url).head)
            BloomFilter.open(url, 1_000).close()
            with pytest.raises(StoreMismatchError, match="another filter has been mad"):
                same_name.add("a")


# The redis_server


def test_memory_that_fills_up_on_the_way(folder: Path) -> None:
    """A step that has begun ends: no key is marked without being returned as new."""
    told: list[bool] = []

    def add_all(seen: BloomFilter) -> None:
        for begin in range(0, 3_000, 50):
            told.extend(seen.add_many(KEYS[begin : begin + 50]))

    with (
        RedisServer(folder) as server,
        server.client() as other,
        BloomFilter.open(server.url("seen"), 1_000_000) as seen,
    ):
        limit = other.info("memory")["used_memory"] + 2_000_000
        other.config_set("maxmemory", limit)
        with pytest.raises(StoreFullError):
            add_all(seen)
        assert 0 < len(told) < 3_000
        assert len(seen) == told.count(True) == len(told)
        known = seen.contains_many(KEYS)
        assert known == [True] * len(told) + [False] * (3_000 - len(told))


@pytest.mark.parametrize("error", [redis.ConnectionError, redis.TimeoutError])
def test_a_batch_whose_answer_is_lost_is_not_sent_again(
    redis_server: RedisServer,
    url: str,
    error: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sent again, it would find its own keys, and call all keys seen."""
    read = AbstractConnection.read_response
    losing = False

    def lost(connection: Any, *how: Any, **more: Any) -> Any:
        """Read an answer, and lose it together with the connection."""
        nonlocal losing
        answer = read(connection, *how, **more)
        if losing:
            losing = False
            connection.disconnect()
            raise error
        return answer

    monkeypatch.setattr(AbstractConnection, "read_response", lost)
    url = url.replace("#", "?retry_on_timeout=1#")
    with BloomFilter.open(url, 1_000) as seen, redis_server.client() as judge:
        seen.update(KEYS[:10])
        judge.config_resetstat()
        losing = True
        with pytest.raises(StoreUnreachableError, match="no Redis answers"):
            seen.add_many(KEYS[10:20])
        assert judge.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
        assert seen.add_many(KEYS[:30]) == [False] * 20 + [True] * 10
        # The control: a client that is left to itself does send again.
        judge.delete("counter")
        with redis.Redis(unix_socket_path=str(redis_server.socket)) as other:
            other.ping()
            losing = True
            assert other.incr("counter") == 2
