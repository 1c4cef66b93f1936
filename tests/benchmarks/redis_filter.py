"""The filter on Redis, beside SADD and beside a bitmap written by hand.

``python tests/benchmarks/redis_filter.py [ROUNDS]`` starts a redis-server of its own
and prints a table: microseconds a key, of the client's user CPU, of the server's CPU,
and altogether, for batches of 1, 50 and 1,000 keys that are new, and that are seen.
Then the memory in Redis of a million keys, and what 100,000 new ones add to its log.

Keys are the 40 hex digits of a SHA-1, as Scrapy's fingerprints. The bitmap is what
people write by hand: GETBIT for each position of each key in one pipeline, then SETBIT
for those that were new in a second one; it is not atomic.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import machine
import redis

from bloomdupe import BloomFilter
from bloomdupe.filter import hashing, sizing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Add = Callable[[Sequence[bytes]], list[bool]]

CAPACITY = 1_000_000
FPP = 1e-6
ROUNDS = 3
KEYS_FOR_BATCH = {1: 5_000, 50: 20_000, 1_000: 50_000}
LOGGED = 100_000


class Cost(NamedTuple):
    """Microseconds a key."""

    client: float
    server: float
    wall: float


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


def cost(add: Add, judge: redis.Redis, all_keys: list[bytes], size: int) -> Cost:
    portions = list(batches(all_keys, size))
    server, user = server_seconds(judge), os.times().user
    wall = time.perf_counter()
    for portion in portions:
        add(portion)
    wall = time.perf_counter() - wall
    spent = (os.times().user - user, server_seconds(judge) - server, wall)
    return Cost(*(seconds / len(all_keys) * 1e6 for seconds in spent))


def memory(client: redis.Redis) -> int:
    facts: dict[str, Any] = client.info("memory")
    return int(facts["used_memory"])


def table_of_costs(ways: dict[str, Add], judge: redis.Redis, rounds: int) -> None:
    found: dict[tuple[str, int, str], list[Cost]] = {}
    first = 0
    for _ in range(rounds):
        for size, count in KEYS_FOR_BATCH.items():
            fresh = keys(first, count)
            first += count
            for way, add in ways.items():
                for kind in ("new", "seen"):
                    spent = cost(add, judge, fresh, size)
                    found.setdefault((way, size, kind), []).append(spent)
    print("| batch | | keys | client | server | wall |")
    print("| --- | --- | --- | --- | --- | --- |")
    for size in KEYS_FOR_BATCH:
        for way in ways:
            for kind in ("new", "seen"):
                costs = found[way, size, kind]
                cells = [
                    f"{statistics.median(part):.1f}"
                    for part in zip(*costs, strict=True)
                ]
                print(f"| {size:,} | {way} | {kind} | {' | '.join(cells)} |")


def memory_of_a_million(ways: dict[str, Add], judge: redis.Redis) -> None:
    million = keys(0, 1_000_000)
    for way, add in ways.items():
        before = memory(judge)
        for portion in batches(million, 1_000):
            add(portion)
        taken = memory(judge) - before
        print(f"{way}: {taken / len(million):.2f} bytes a key at {len(million):,}")


def started(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    program = shutil.which("redis-server") or "redis-server"
    socket = folder / "s"
    process = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", str(socket), "--save", "", *options],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    while not socket.exists():
        time.sleep(0.01)
    return process


def main(rounds: int) -> None:
    for name, value in machine.describe().items():
        if name not in machine.RIVALS:
            print(f"{name}: {value}")
    for package in ("redis", "hiredis"):
        print(f"{package}: {machine.version(package)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process = started(folder)
        try:
            judge = redis.Redis(unix_socket_path=str(folder / "s"))
            facts: dict[str, Any] = judge.info()
            print(f"redis-server: {facts['redis_version']}, on a socket\n")
            url = f"unix://{folder}/s#seen"
            with BloomFilter.open(url, CAPACITY, FPP) as seen:
                ways: dict[str, Add] = {
                    "bloomdupe": seen.add_many,
                    "SADD": set_of(judge),
                    "GETBIT, SETBIT": bitmap_of(judge),
                }
                table_of_costs(ways, judge, rounds)
                del ways["GETBIT, SETBIT"]
                seen.clear()
                judge.delete("set", "bitmap")
                memory_of_a_million(ways, judge)
        finally:
            process.kill()
            process.wait()
        (folder / "s").unlink()
        process = started(folder, "--appendonly", "yes")
        try:
            judge = redis.Redis(unix_socket_path=str(folder / "s"))
            with BloomFilter.open(url, CAPACITY, FPP) as seen:
                seen.update(keys(0, LOGGED))
            facts = judge.info("persistence")
            size = int(facts["aof_current_size"])
            print(f"log of Redis: {size / LOGGED:.0f} bytes a new key")
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    main(parser.parse_args().rounds)
