"""Many clients of one filter: each key is new once, and the filter grows once.

The server sees no difference between clients in threads and those in processes.
"""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from support.redis_server import RedisServer, blocks
from support.repetition import repeated
from support.waiting import DEADLINE

from bloomdupe import BloomFilter
from bloomdupe.store.redis.address import Address

CLIENTS = 4
KEYS = [f"https://www.example/{number}" for number in range(6_000)]


def keys_of(client: int) -> list[str]:
    """Return most of the keys, in an order of its own."""
    return random.Random(client).sample(KEYS, len(KEYS) * 3 // 4)


def add_some(url: str, client: int, fpp: float, barrier: Barrier) -> list[str]:
    """Add the keys of a client in batches of any size; return those that were new."""
    chance, keys = random.Random(client), keys_of(client)
    new = []
    with BloomFilter.open(url, fpp=fpp) as seen:
        barrier.wait()
        while keys:
            size = chance.choice([1, 7, 50, 400])
            batch, keys = keys[:size], keys[size:]
            answers = seen.add_many(batch)
            new += [key for key, added in zip(batch, answers, strict=True) if added]
    return new


@pytest.mark.parametrize("fpp", repeated([1e-9, 1e-2]))
def test_each_key_is_new_once_for_all_clients(url: str, fpp: float) -> None:
    offered = {key for client in range(CLIENTS) for key in keys_of(client)}
    barrier = Barrier(CLIENTS, timeout=DEADLINE)
    with BloomFilter.open(url, 200, fpp) as seen, ThreadPoolExecutor(CLIENTS) as pool:
        tasks = [pool.submit(add_some, url, n, fpp, barrier) for n in range(CLIENTS)]
        times = Counter(key for task in tasks for key in task.result())
        assert set(times.values()) == {1}
        dropped = offered - times.keys()
        assert len(dropped) <= 2 * fpp * len(offered)  # false positives
        assert all(seen.contains_many(offered))
        assert len(seen) == len(times)
        layers = seen.info().layers
    # Each layer was begun once, and not before the one below was full.
    assert len(layers) == 5
    assert all(layer["keys"] == layer["capacity"] for layer in layers[:-1])


def test_clients_that_create_it_at_once_have_one_filter(url: str) -> None:
    barrier = Barrier(CLIENTS, timeout=DEADLINE)

    def secret(_: int) -> bytes:
        """Create or open the filter; return its secret, which is drawn at random."""
        barrier.wait()
        with BloomFilter.open(url, 100) as seen:
            return seen.parameters.key

    with ThreadPoolExecutor(CLIENTS) as pool:
        secrets = [*pool.map(secret, range(CLIENTS))]
    assert len(set(secrets)) == 1


def test_clear_forgets_for_all_clients(url: str, redis_server: RedisServer) -> None:
    some, head = KEYS[:500], Address.of(url).head
    with (
        BloomFilter.open(url, 100) as one,
        BloomFilter.open(url) as two,
        redis_server.client() as judge,
    ):
        one.update(some)
        assert len(two.info().layers) == 3
        two.clear()
        assert not any(one.contains_many(some))
        assert len(one) == 0
        assert not blocks(judge, head)
        assert one.update(some) == 500
        assert all(two.contains_many(some))
        one.clear()
        one.add("since then")
        two.clear()  # it has not heard of the other clearing
        assert "since then" not in one
        assert not blocks(judge, head)
