"""A Redis that is away, full, replaced, cut, empty or foreign: wait, or say it once."""

from __future__ import annotations

import shlex
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from support.owners_model import joined
from support.redis_groups import redis_cluster
from support.redis_server import LOGGED, RedisServer
from support.waiting import until

from bloomdupe.errors import (
    StoreAccessError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreMismatchError,
    StoreUnreachableError,
)
from bloomdupe.store.format import HISTORY
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.owner import PartitionOwner
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bloomdupe.store.redis.redis_store import RedisStore

PASSWORD = "open-sesame"  # noqa: S105 - of a server that lives for a test


@pytest.fixture
def server(folder: Path) -> Iterator[RedisServer]:
    with RedisServer(folder / "server", *LOGGED) as started:
        yield started


@pytest.fixture
def owner(server: RedisServer) -> Iterator[PartitionOwner]:
    made = joined(Address.of(server.url("crawl")))
    yield made
    made.close()


def store_of(owner: PartitionOwner) -> RedisStore:
    return owner.stores[0]


def put(owner: PartitionOwner, value: bytes = b"1") -> None:
    store_of(owner).commit(Part(changes={HISTORY: {b"a": value}}))


def stored(owner: PartitionOwner) -> bytes:
    with store_of(owner).snapshot() as snapshot:
        return bytes(snapshot.get(HISTORY, b"a") or b"")


def test_a_commit_may_have_more_entries_than_a_call_has_arguments(
    owner: PartitionOwner,
) -> None:
    """Lua's stack has room for some thousand."""
    many = [b"%d" % number for number in range(20_000)]
    part = Part(changes={HISTORY: {value: value for value in many}})
    commit = owner.begin({store_of(owner): [part]}, sent={0: many})
    commit.send()
    commit.done()
    assert store_of(owner).read_inbox(30_000) == many
    with store_of(owner).snapshot() as snapshot:
        assert snapshot.entries(HISTORY) == len(many)


def test_the_waiting_can_be_ended(
    server: RedisServer, owner: PartitionOwner, caplog: pytest.LogCaptureFixture
) -> None:
    server.kill()
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(put, owner)
        until(lambda: "Waiting" in caplog.text)
        owner.client.stop_waiting()
        with pytest.raises(StoreUnreachableError) as raised:
            sending.result()
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_crawl_is_on_one_node_of_a_cluster(folder: Path) -> None:
    with redis_cluster(folder, *LOGGED) as cluster:
        owner = joined(Address.of(f"{cluster}#crawl"))
        put(owner)
        assert stored(owner) == b"1"
        assert owner.renew()
        put(owner, b"2")
        assert stored(owner) == b"2"
        owner.close()


# It is said in one line


def join(owner: PartitionOwner) -> None:
    joined(owner.client.address)


@pytest.mark.parametrize(
    ("damage", "act", "kind", "words"),
    [
        ("CONFIG SET maxmemory 1", put, StoreFullError, "memory"),
        ("REPLICAOF 127.0.0.1 1", put, StoreAccessError, "is a replica"),
        (
            "CONFIG SET maxmemory-policy allkeys-lru",
            join,
            StoreMismatchError,
            "throws away keys .* set it to noeviction",
        ),
        (
            "CONFIG SET appendonly no save ''",
            join,
            StoreMismatchError,
            "writes nothing to disk, .* CONFIG SET appendonly yes",
        ),
        ("SET bd:{crawl}:head x", join, StoreMismatchError, "holds something else"),
        (
            "FLUSHALL; HSET bd:{crawl}:head a b",
            join,
            StoreMismatchError,
            "holds something else",
        ),
        # And nothing after it: it was restored in part.
        *(
            ("HINCRBY bd:{crawl}:head begun 1", act, StoreDamagedError, "aof --fix")
            for act in (put, lambda owner: owner.sample(1), join)
        ),
        ("FLUSHALL", put, StoreError, "the crawl is gone"),
        ("FLUSHALL", PartitionOwner.renew, StoreError, "the crawl is gone"),
    ],
)
def test_trouble_is_said_in_one_line(
    server: RedisServer,
    owner: PartitionOwner,
    damage: str,
    act: Any,
    kind: type[StoreError],
    words: str,
) -> None:
    put(owner)
    owner.client.stop_waiting()
    with server.client() as judge:
        for command in damage.split("; "):
            judge.execute_command(*shlex.split(command))
    with pytest.raises(kind, match=words) as raised:
        act(owner)
    assert type(raised.value) is kind
    assert "\n" not in str(raised.value)


def test_a_user_without_all_rights_is_refused_before_anything_is_written(
    server: RedisServer, owner: PartitionOwner
) -> None:
    put(owner)
    with server.client() as judge:
        judge.execute_command(
            "ACL", "SETUSER", "some", "on", f">{PASSWORD}", "~*", "+@all", "-hincrby"
        )
    url = server.url("crawl").replace("unix://", f"unix://some:{PASSWORD}@")
    with pytest.raises(StoreAccessError, match="Redis refuses this user"):
        joined(Address.of(url))
    assert owner.moment() == 1


def test_no_message_has_the_password(server: RedisServer) -> None:
    with server.client() as judge:
        judge.config_set("requirepass", PASSWORD)
    url = server.url("crawl").replace("unix://", f"unix://:{PASSWORD}@")
    owner = joined(Address.of(url))
    owner.client.stop_waiting()
    wrong = url.replace(PASSWORD, PASSWORD[::-1])
    with pytest.raises(StoreAccessError) as refused:
        joined(Address.of(wrong))
    server.kill()
    with pytest.raises(StoreUnreachableError) as away:
        put(owner)
    for error in (refused.value, away.value):
        assert PASSWORD not in str(error)
        assert PASSWORD[::-1] not in str(error)
    owner.close()
