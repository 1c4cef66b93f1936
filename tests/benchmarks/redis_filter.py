"""The filter on Redis, beside SADD and beside a bitmap written by hand.

``python tests/benchmarks/redis_filter.py [--rounds N]`` starts a redis-server of its
own and prints a table: microseconds a key, of the client's user CPU, of the server's
CPU, and altogether, for batches of 1, 50 and 1,000 keys that are new, and that are
seen. Then the memory in Redis of a million keys, and the bytes that 100,000 new ones
add to its log.

Keys are the 40 hex digits of a SHA-1, as Scrapy's fingerprints. The bitmap is the usual
handwritten one: GETBIT for each position of each key in one pipeline, then SETBIT
for those that were new in a second one; it is not atomic.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machine
from runner import Figures, Report, options
from support.redis_server import RedisServer

from bloomdupe import BloomFilter
from bloomdupe.filter import hashing, sizing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import redis

    Add = Callable[[Sequence[bytes]], list[bool]]

CAPACITY = 1_000_000
FPP = 1e-6
ROUNDS = 3
KEYS_FOR_BATCH = {1: 5_000, 50: 20_000, 1_000: 50_000}
LOGGED = 100_000
PARTS = ("client", "server", "wall")


def keys(first: int, count: int) -> list[bytes]:
    return [
        hashlib.sha1(b"%d" % number, usedforsecurity=False).hexdigest().encode()
        for number in range(first, first + count)
    ]


def batches(all_keys: list[bytes], size: int) -> Iterator[list[bytes]]:
    for begin in range(0, len(all_keys), size):
        yield all_keys[begin : begin + size]


def set_of(client: redis.Redis) -> Add:
    """Return the verb of a plain set."""

    def add(batch: Sequence[bytes]) -> list[bool]:
        if len(batch) == 1:
            return [client.sadd("set", batch[0]) == 1]
        pipeline = client.pipeline(transaction=False)
        for key in batch:
            pipeline.sadd("set", key)
        return [answer == 1 for answer in pipeline.execute()]

    return add


def bitmap_of(client: redis.Redis) -> Add:
    """Return the verb of a bitmap as people write it."""
    shape = sizing.layer_geometry(CAPACITY, FPP, 0)

    def offsets(key: bytes) -> list[int]:
        first = hashing.digest(key)
        base = hashing.page_hash(first) % shape.pages * sizing.PAGE_BITS
        return [base + where for where in hashing.positions(first, shape.hashes)]

    def add(batch: Sequence[bytes]) -> list[bool]:
        places = [offsets(key) for key in batch]
        pipeline = client.pipeline(transaction=False)
        for place in places:
            for offset in place:
                pipeline.getbit("bitmap", offset)
        bits = pipeline.execute()
        new = []
        for number, place in enumerate(places):
            some = bits[number * shape.hashes : (number + 1) * shape.hashes]
            new.append(not all(some))
            if new[-1]:
                for offset in place:
                    pipeline.setbit("bitmap", offset, 1)
        pipeline.execute()
        return new

    return add


def server_seconds(client: redis.Redis) -> float:
    facts: dict[str, Any] = client.info("cpu")
    return float(facts["used_cpu_user"]) + float(facts["used_cpu_sys"])


def cost(
    add: Add, judge: redis.Redis, all_keys: list[bytes], size: int
) -> dict[str, float]:
    """Return microseconds a key."""
    portions = list(batches(all_keys, size))
    server, user = server_seconds(judge), os.times().user
    wall = time.perf_counter()
    for portion in portions:
        add(portion)
    wall = time.perf_counter() - wall
    spent = (os.times().user - user, server_seconds(judge) - server, wall)
    each = (seconds / len(all_keys) * 1e6 for seconds in spent)
    return dict(zip(PARTS, each, strict=True))


def fact(client: redis.Redis, section: str, name: str) -> int:
    facts: dict[str, Any] = client.info(section)
    return int(facts[name])


def memory(client: redis.Redis) -> int:
    return fact(client, "memory", "used_memory")


def costs(
    report: Report, ways: dict[str, Add], judge: redis.Redis, rounds: int
) -> None:
    found: dict[tuple[int, str, str], Figures] = {}
    first = 0
    for _ in range(rounds):
        for size, count in KEYS_FOR_BATCH.items():
            fresh = keys(first, count)
            first += count
            for way, add in ways.items():
                for kind in ("new", "seen"):
                    own = found.setdefault((size, way, kind), Figures())
                    own.rounds.append(cost(add, judge, fresh, size))
    rows = [
        [f"{size:,}", way, kind, *(own.median(part, ".1f") for part in PARTS)]
        for (size, way, kind), own in found.items()
    ]
    head = ["batch", "", "keys", *PARTS]
    report.table("Microseconds a key", f"Medians of {rounds} rounds.", head, rows)


def memory_of_a_million(
    report: Report, ways: dict[str, Add], judge: redis.Redis
) -> None:
    million = keys(0, 1_000_000)
    rows = []
    for way, add in ways.items():
        before = memory(judge)
        for portion in batches(million, 1_000):
            add(portion)
        rows.append([way, f"{(memory(judge) - before) / len(million):.2f}"])
    report.table("Memory in Redis", "Of a million keys.", ["", "bytes a key"], rows)


def facts(*packages: str) -> dict[str, str]:
    """Describe the machine, the packages and the server."""
    with tempfile.TemporaryDirectory() as name, RedisServer(Path(name)) as server:
        info: Any = server.client().info("server")
    place = f"{info['redis_version']}, on a socket of its own"
    known = machine.describe("redis", "hiredis", *packages)
    return {**known, "redis-server": place}


def main() -> int:
    given = options(__doc__, rounds=ROUNDS)
    report = Report(facts())
    with tempfile.TemporaryDirectory() as name:
        with (
            RedisServer(Path(name, "redis")) as server,
            server.client() as judge,
            BloomFilter.open(server.url("seen"), CAPACITY, FPP) as seen,
        ):
            ways: dict[str, Add] = {
                "bloomdupe": seen.add_many,
                "SADD": set_of(judge),
                "GETBIT, SETBIT": bitmap_of(judge),
            }
            costs(report, ways, judge, given.rounds)
            del ways["GETBIT, SETBIT"]
            seen.clear()
            judge.delete("set", "bitmap")
            memory_of_a_million(report, ways, judge)
        log = RedisServer(Path(name, "logged"), "--appendonly", "yes")
        with log, log.client() as judge:
            with BloomFilter.open(log.url("seen"), CAPACITY, FPP) as seen:
                seen.update(keys(0, LOGGED))
            size = fact(judge, "persistence", "aof_current_size") / LOGGED
        report.table("Log of Redis", "Of new keys.", ["bytes a key"], [[f"{size:.0f}"]])
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
