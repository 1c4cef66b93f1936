"""The filter on a Redis Cluster: all of it lies on one node, wherever one asks."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing

import pytest
import redis
from support.redis_server import RedisServer
from support.standing_crawl import StandingCrawl

from bloomdupe import BloomFilter
from bloomdupe.cli import main as cli
from bloomdupe.errors import StoreUnreachableError
from bloomdupe.redis.partition import Offer
from bloomdupe.redis.shared_frontier import SharedFrontier
from bloomdupe.store.redis.address import Address
from bloomdupe.store.redis.other_keys import Keys

KEYS = [f"https://www.example/{number}" for number in range(3_000)]


def test_filters_on_a_cluster(nodes: list[RedisServer]) -> None:
    homes = set()
    for name in "abcdef":
        urls = [f"redis://127.0.0.1:{node.port}#{name}" for node in nodes]
        with BloomFilter.open(urls[0], 500) as one, BloomFilter.open(urls[1]) as two:
            assert one.update(KEYS[:2_000]) == 2_000
            assert two.add_many(KEYS) == [False] * 2_000 + [True] * 1_000
            assert one.layer_count == 3
            one.clear()
            assert not any(two.contains_many(KEYS))
            two.add("a")
        homes |= {
            (name, number)
            for number, node in enumerate(nodes)
            if has_keys_of(node, name)
        }
    assert len(homes) == 6  # each filter is on one node
    assert len({number for _, number in homes}) > 1


def has_keys_of(node: RedisServer, name: str) -> bool:
    with node.client() as client:
        return any(client.scan_iter(f"bloomdupe:{{{name}}}*"))


def test_keys_of_other_programs_on_a_cluster(nodes: list[RedisServer]) -> None:
    url = f"redis://127.0.0.1:{nodes[0].port}"
    values = [f"{number:05}".encode() for number in range(1_700)]
    with redis.RedisCluster.from_url(url) as theirs:
        for name in "abcdef":  # on all nodes
            theirs.rpush(f"{name}:list", *values)
            theirs.zadd(f"{name}:zset", {one: int(one) for one in values})
            theirs.sadd(f"{name}:set", *values)
    with closing(Keys(Address.of_server(url))) as keys:
        for name in "abcdef":
            for kind in ("list", "zset"):
                key = f"{name}:{kind}"
                assert (keys.kind(key), keys.size(key)) == (kind, 1_700)
                assert list(keys.ordered(key)) == values
            assert list(keys.ordered(f"{name}:list", from_end=True)) == values[::-1]
            assert set(keys.members(f"{name}:set")) == set(values)
            assert keys.has(f"{name}:set", "00017")
            assert not keys.has(f"{name}:set", "17")
            assert keys.size(f"{name}:none") == 0


def test_a_crawl_on_a_cluster_can_be_looked_at(
    nodes: list[RedisServer], capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"redis://127.0.0.1:{nodes[0].port}#crawl"
    crawl = StandingCrawl(url)
    crawl.fill(20, 30)
    for worker in crawl.workers:
        crawl.lease(worker, 50)
        crawl.settle(worker, 20)
    (home,) = (node for node in nodes if has_keys_of(node, "crawl"))
    assert cli.main(["info", url, "--json"]) == 0
    job = json.loads(capsys.readouterr().out)["job"]
    assert (job["pending"], job["leased"]) == (500, 60)
    with home.client() as client:
        used = client.info("memory")["used_memory"]
    assert used / 2 < job["memory_bytes"] < used * 2
    assert cli.main(["list", url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), sum("in progress" in line for line in lines)) == (560, 60)


def test_each_node_may_be_named_by_those_who_join(nodes: list[RedisServer]) -> None:
    for name in ("t", "shop", "quotes", "jobs"):
        for node in nodes:
            url = f"redis://127.0.0.1:{node.port}#{name}"
            with SharedFrontier.open(url, 1_000, partitions=4) as one:
                one.tend()
                assert one.offer(links(0, 20)).count(0) in (0, 20)


def links(first: int, count: int) -> list[Offer]:
    numbers = range(first, first + count)
    return [Offer(f"host{n}", b"%d" % n, b"%d" % n) for n in numbers]


def test_a_crawl_that_has_moved_to_another_node(nodes: list[RedisServer]) -> None:
    url = f"redis://127.0.0.1:{nodes[0].port}#moving"
    with SharedFrontier.open(url, 1_000, partitions=2) as one:
        one.tend()
        one.offer(links(0, 20))
        held = one.lease(10)
        move(nodes, "bloomdupe:{moving}")
        with pytest.raises(StoreUnreachableError, match="takes no changes at the mom"):
            one.offer(links(0, 40))
        assert one.offer(links(0, 40)) == [0] * 20 + [1] * 20
        assert one.settle((lease, []) for lease in held) == []
        assert {lease.partition for lease in one.lease(30)} == {0, 1}


def move(nodes: list[RedisServer], key: str) -> None:
    """Move the slot of a key to another node."""
    with ExitStack() as stack:
        clients = [stack.enter_context(node.client()) for node in nodes]
        ask = [client.execute_command for client in clients]
        slot = ask[0]("CLUSTER KEYSLOT", key)
        counts = [one("CLUSTER COUNTKEYSINSLOT", slot) for one in ask]
        source = counts.index(max(counts))
        target = (source + 1) % len(nodes)
        ids = [one("CLUSTER MYID") for one in ask]
        ask[target]("CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
        ask[source]("CLUSTER SETSLOT", slot, "MIGRATING", ids[target])
        names = ask[source]("CLUSTER GETKEYSINSLOT", slot, 1_000)
        to = "127.0.0.1", nodes[target].port, "", 0, 60_000, "KEYS"
        ask[source]("MIGRATE", *to, *names)
        for one in (ask[target], ask[source]):
            one("CLUSTER SETSLOT", slot, "NODE", ids[target])
