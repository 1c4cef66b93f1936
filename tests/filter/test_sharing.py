"""Many clients of one filter: each key is new once, and the filter grows once.

The server sees no difference between clients in threads and those in processes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from support.repetition import repeated
from support.waiting import DEADLINE

from bloomdupe import BloomFilter
from bloomdupe.filter.redis_filter import RedisFilter

CLIENTS = 4
KEYS = [f"https://www.example/{number}" for number in range(6_000)]


def opened(url: str, capacity: int | None = None, fpp: float = 1e-9) -> RedisFilter:
    found: Any = BloomFilter.open(url, capacity, fpp)
    assert isinstance(found, RedisFilter)
    return found


def layers(seen: RedisFilter) -> int:
    return len(seen.info().layers)


# The code of one client: it returns the keys that were new by the filter's answer.


def add_some(url: str, number: int, fpp: float, barrier: Barrier) -> list[str]:
    """Add most of the keys, in an order and in batches of its own."""
    chance = random.Random(number)
    keys = chance.sample(KEYS, len(KEYS) * 3 // 4)
    new = []
    with opened(url, fpp=fpp) as seen:
        barrier.wait()
        while keys:
            size = chance.choice([1, 7, 50, 400])
            batch, keys = keys[:size], keys[size:]
            answers = seen.add_many(batch)
            new += [key for key, added in zip(batch, answers, strict=True) if added]
    return new


def reported_new(
    work: Callable[[str, int, float, Barrier], list[str]],
    url: str,
    fpp: float,
) -> Counter[str]:
    """Let clients do it at the same time; count how often each key was new."""
    barrier = Barrier(CLIENTS, timeout=DEADLINE)
    with ThreadPoolExecutor(CLIENTS) as pool:
        tasks = [pool.submit(work, url, n, fpp, barrier) for n in range(CLIENTS)]
        return Counter(key for task in tasks for key in task.result())


@pytest.mark.parametrize("fpp", repeated([1e-9, 1e-2]))
def test_each_key_is_new_once_for_all_clients(url: str, fpp: float) -> None:
    offered = {
        key
        for number in range(CLIENTS)
        for key in random.Random(number).sample(KEYS, len(KEYS) * 3 // 4)
    }
    with opened(url, 200, fpp) as seen:
        times = reported_new(add_some, url, fpp)
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
        with opened(url, 100) as seen:
            return seen.parameters.key

    with ThreadPoolExecutor(CLIENTS) as pool:
        secrets = [*pool.map(secret, range(CLIENTS))]
    assert len(set(secrets)) == 1
