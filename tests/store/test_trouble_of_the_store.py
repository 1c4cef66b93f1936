"""A Redis that is away, full, replaced, cut, empty or foreign: wait, or say it once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.redis_groups import RedisCluster
from support.redis_server import LOGGED, RedisServer
from support.waiting import until

from bloomdupe.errors import (
    NotOwnerError,
    StoreAccessError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
    StoreMismatchError,
    StoreUnreachableError,
)
from bloomdupe.store.format import HISTORY
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.crawl_reader import NOBODY
from bloomdupe.store.redis.owner import PartitionOwner
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bloomdupe.store.redis.redis_store import RedisStore

PASSWORD = "open-sesame"  # noqa: S105 - of a server that lives for a test


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a short name, as a socket needs it."""
    return tmp_path_factory.mktemp("r")


@pytest.fixture
def server(folder: Path) -> Iterator[RedisServer]:
    with RedisServer(folder / "server", *LOGGED) as started:
        yield started


@pytest.fixture
def owner(server: RedisServer) -> Iterator[PartitionOwner]:
    made = joined(server.url("crawl"))
    yield made
    made.close()


def joined(url: str) -> PartitionOwner:
    """Return the owner of the only partition of a crawl."""
    owner = PartitionOwner.at(Address.of(url))
    owner.take({0: owner.sample(1).owners.get(0, NOBODY)})
    return owner


def store_of(owner: PartitionOwner) -> RedisStore:
    return owner.stores[0]


def put(owner: PartitionOwner, value: bytes) -> None:
    store_of(owner).commit(Part(changes={HISTORY: {b"a": value}}))


def stored(owner: PartitionOwner) -> bytes:
    with store_of(owner).snapshot() as snapshot:
        return bytes(snapshot.get(HISTORY, b"a") or b"")


def meanwhile(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


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


# It waits


def test_commits_and_reads_wait_for_a_server_that_is_away(
    server: RedisServer, owner: PartitionOwner
) -> None:
    put(owner, b"1")
    found: list[bytes] = []
    acts: list[Callable[[], object]] = [
        lambda: put(owner, b"2"),
        lambda: found.append(stored(owner)),
    ]
    for number, act in enumerate(acts, 1):
        server.kill()
        acting = meanwhile(act)
        until(lambda: owner.client.interruptions == number)
        server.start()
        acting.join()
    assert found == [b"2"]
    assert owner.step == 2


def test_the_waiting_can_be_ended(server: RedisServer, owner: PartitionOwner) -> None:
    server.kill()
    errors: list[StoreError] = []

    def send() -> None:
        try:
            put(owner, b"1")
        except StoreError as error:
            errors.append(error)

    sending = meanwhile(send)
    until(lambda: owner.client.interruptions == 1)
    owner.client.stop_waiting()
    sending.join()
    (error,) = errors
    assert isinstance(error, StoreUnreachableError)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        (lambda judge: judge.config_set("maxmemory", 1), StoreFullError),
        (lambda judge: judge.replicaof("127.0.0.1", "1"), StoreAccessError),
    ],
    ids=["full", "a replica"],
)
def test_what_does_not_pass_is_said_in_one_line(
    server: RedisServer, owner: PartitionOwner, damage: Any, kind: type[StoreError]
) -> None:
    owner.client.stop_waiting()
    with server.client() as judge:
        damage(judge)
        with pytest.raises(kind) as raised:
            put(owner, b"1")
        assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_a_crawl_is_on_one_node_of_a_cluster(folder: Path) -> None:
    with RedisCluster(folder, *LOGGED) as cluster:
        owner = joined(cluster.url("crawl"))
        put(owner, b"1")
        assert stored(owner) == b"1"
        assert owner.renew()
        put(owner, b"2")
        assert stored(owner) == b"2"
        owner.close()


# It is refused


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda judge: judge.config_set("maxmemory-policy", "allkeys-lru"),
            "throws away keys .* set it to noeviction",
        ),
        (
            lambda judge: judge.config_set("appendonly", "no", "save", ""),
            "writes nothing to disk, .* CONFIG SET appendonly yes",
        ),
        (lambda judge: judge.set("bd:{crawl}:head", "x"), "holds something else"),
        (lambda judge: judge.hset("bd:{crawl}:head", "a", "b"), "holds something else"),
    ],
    ids=["evicting", "without persistence", "a foreign key", "a foreign hash"],
)
def test_a_server_is_refused_in_one_line(
    server: RedisServer, damage: Any, words: str
) -> None:
    with server.client() as judge:
        damage(judge)
    with pytest.raises(StoreMismatchError, match=words) as raised:
        joined(server.url("crawl"))
    assert "\n" not in str(raised.value)


def test_a_user_without_all_rights_is_refused_before_anything_is_written(
    server: RedisServer, owner: PartitionOwner
) -> None:
    put(owner, b"1")
    with server.client() as judge:
        judge.execute_command(
            "ACL", "SETUSER", "some", "on", f">{PASSWORD}", "~*", "+@all", "-hincrby"
        )
    url = server.url("crawl").replace("unix://", f"unix://some:{PASSWORD}@")
    with pytest.raises(StoreAccessError, match="Redis refuses this user"):
        joined(url)
    assert owner.sample(1).commits == 1


def test_another_number_of_partitions_is_refused(owner: PartitionOwner) -> None:
    with pytest.raises(StoreMismatchError, match="has 1 partitions, not 4"):
        PartitionOwner.at(owner.client.address, 4)


def test_nobody_answers(folder: Path) -> None:
    with pytest.raises(StoreUnreachableError, match="no Redis answers there"):
        joined(f"unix://{folder}/nowhere#crawl")


def test_no_message_has_the_password(server: RedisServer) -> None:
    with server.client() as judge:
        judge.config_set("requirepass", PASSWORD)
    url = server.url("crawl").replace("unix://", f"unix://:{PASSWORD}@")
    owner = joined(url)
    owner.client.stop_waiting()
    wrong = url.replace(PASSWORD, PASSWORD[::-1])
    with pytest.raises(StoreAccessError) as refused:
        joined(wrong)
    server.kill()
    with pytest.raises(StoreUnreachableError) as away:
        put(owner, b"1")
    for error in (refused.value, away.value):
        assert PASSWORD not in str(error)
        assert PASSWORD[::-1] not in str(error)
    owner.close()


# Half a commit, or none of it


@pytest.mark.parametrize("act", [put, PartitionOwner.sample], ids=["commit", "sample"])
def test_a_commit_that_was_restored_in_part_is_refused(
    server: RedisServer, owner: PartitionOwner, act: Any
) -> None:
    put(owner, b"1")
    with server.client() as judge:
        judge.hincrby("bd:{crawl}:head", "begun", 1)  # and nothing after it
    with pytest.raises(StoreDamagedError, match=r"redis-check-aof --fix") as raised:
        act(owner, b"2" if act is put else 1)
    assert "\n" not in str(raised.value)
    with pytest.raises(StoreDamagedError, match=r"redis-check-aof --fix"):
        joined(server.url("crawl"))


def test_a_server_that_was_started_empty(
    server: RedisServer, owner: PartitionOwner
) -> None:
    put(owner, b"1")
    with server.client() as judge:
        judge.flushall()
    with pytest.raises(StoreError, match="the crawl is gone") as raised:
        put(owner, b"2")
    assert not isinstance(raised.value, NotOwnerError)
    with pytest.raises(StoreError, match="the crawl is gone"):
        owner.renew()
