"""The frontier that workers share on Redis, beside what scrapy-redis does.

``python tests/benchmarks/redis_frontier.py [ROUNDS]`` starts a redis-server of its own
and prints microseconds a request: of the client's user CPU, of the server's CPU, and
altogether, for links that are new, links that are seen, and requests that are handed
out and settled with a line each, 500 at a time. Then the server's CPU by how many go
into one script, and how many a second that makes if it has one core; and what they add
to Redis' log. Then the memory of what waits, and what is left of a million that were
done and whose lines were deleted, on 1,000 hosts in 64 partitions, beside scrapy-redis'
set of their fingerprints.

Payloads have 200 bytes, fingerprints are 40 hex digits, on 100 hosts in 16 partitions.
scrapy-redis' part is what its 0.9 sends: SADD for each link and ZADD for a new one, a
round trip each; to get one, ZRANGE and ZREMRANGEBYRANK in a transaction. It knows
neither leases nor output.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import machine
import redis
from redis_filter import Cost, batches, cost, keys, memory, started

from bloomdupe.redis.partition import Offer
from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Do = Callable[[Sequence[bytes]], object]

LINKS = 20_000
BATCH = 500
HOSTS = 100
MILLION = 1_000_000
PAYLOAD = b"x" * 200
ROUNDS = 3
SCRIPTS = {1: 2_000, 4: 8_000, 16: 16_000, 64: 32_000, 256: 51_200}
"""Requests, by how many go into one script."""


def shared(frontier: SharedFrontier) -> dict[str, Do]:
    """Return what is done to the shared frontier, by name."""

    def offer(batch: Sequence[bytes]) -> None:
        frontier.offer(
            Offer(f"host{int(key[:8], 16) % HOSTS}", key, PAYLOAD) for key in batch
        )

    def work(batch: Sequence[bytes]) -> None:
        leases = frontier.lease(len(batch), len(batch))
        frontier.settle((lease, [lease.payload]) for lease in leases)
        for lease in leases:
            frontier.ask_again(lease.slot)

    return {"new": offer, "seen": offer, "handed out and settled": work}


def scrapy_redis(client: redis.Redis) -> dict[str, Do]:
    """Return the same for the commands of scrapy-redis."""

    def offer(batch: Sequence[bytes]) -> None:
        for key in batch:
            if client.sadd("dupefilter", key):
                client.zadd("requests", {key + PAYLOAD: 0})

    def work(batch: Sequence[bytes]) -> None:
        for _ in batch:
            pipeline = client.pipeline()
            pipeline.zrange("requests", 0, 0)
            pipeline.zremrangebyrank("requests", 0, 0)
            pipeline.execute()

    return {"new": offer, "seen": offer, "handed out and settled": work}


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
            url = f"unix://{folder}/s#crawl"
            with SharedFrontier.open(url, MILLION, partitions=16) as frontier:
                frontier.tend()
                ways = {
                    "bloomdupe": shared(frontier),
                    "scrapy-redis": scrapy_redis(judge),
                }
                table(ways, judge, rounds)
                memories(ways, judge)
            table_of_scripts(f"unix://{folder}/s", judge, rounds)
            memory_of_a_million(f"unix://{folder}/s#million", judge)
        finally:
            process.kill()
            process.wait()
    table_of_logs()


def adding(do: Do) -> Callable[[Sequence[bytes]], list[bool]]:
    """Return a verb as :func:`redis_filter.cost` calls it."""

    def add(batch: Sequence[bytes]) -> list[bool]:
        do(batch)
        return []

    return add


def table(ways: dict[str, dict[str, Do]], judge: redis.Redis, rounds: int) -> None:
    found: dict[tuple[str, str], list[Cost]] = {}
    for number in range(rounds):
        links = keys(number * LINKS, LINKS)
        for way, verbs in ways.items():
            for what, do in verbs.items():
                spent = cost(adding(do), judge, links, BATCH)
                found.setdefault((what, way), []).append(spent)
    print("\n| request | | client | server | wall |\n| --- | --- | --- | --- | --- |")
    for (what, way), costs in sorted(found.items()):
        cells = [f"{statistics.median(part):.1f}" for part in zip(*costs, strict=True)]
        print(f"| {what} | {way} | {' | '.join(cells)} |")


def memories(ways: dict[str, dict[str, Do]], judge: redis.Redis) -> None:
    """Print the memory of what waits, and of what is left when all is done."""
    links = keys(10 * MILLION, MILLION // 5)
    for way, verbs in ways.items():
        before = memory(judge)
        for begin in range(0, len(links), 1_000):
            verbs["new"](links[begin : begin + 1_000])
        waiting = memory(judge) - before
        print(f"{way}: {waiting / len(links):.0f} bytes a request that waits")


def table_of_scripts(server: str, judge: redis.Redis, rounds: int) -> None:
    found: dict[tuple[str, int], list[float]] = {}
    names = ("new", "seen", "handed out and settled")
    with SharedFrontier.open(f"{server}#scripts", MILLION, partitions=1) as frontier:
        frontier.tend()
        verbs = shared(frontier)
        first = 20 * MILLION
        for _ in range(rounds):
            for size, count in SCRIPTS.items():
                links = keys(first, count)
                first += count
                for what in names:
                    spent = cost(adding(verbs[what]), judge, links, size)
                    found.setdefault((what, size), []).append(spent.server)
    print("\nMicroseconds of the server a request, and requests a second of its core")
    print("| in one script | " + " | ".join(names) + " |\n| --- | --- | --- | --- |")
    for size in SCRIPTS:
        costs = [statistics.median(found[what, size]) for what in names]
        cells = [f"{spent:.1f} ({1e6 / spent:,.0f}/s)" for spent in costs]
        print(f"| {size} | {' | '.join(cells)} |")


def table_of_logs() -> None:
    print("\nBytes of Redis' log a request\n")
    print("| in one script | | bytes |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        process = started(Path(name), "--appendonly", "yes")
        try:
            judge = redis.Redis(unix_socket_path=f"{name}/s")
            url = f"unix://{name}/s#logged"
            with SharedFrontier.open(url, MILLION, partitions=1) as frontier:
                frontier.tend()
                verbs = shared(frontier)
                for place, size in enumerate((1, 16)):
                    links = keys(place * LINKS, LINKS // 4)
                    for what, do in verbs.items():
                        before = logged(judge)
                        for some in batches(links, size):
                            do(some)
                        spent = (logged(judge) - before) / len(links)
                        print(f"| {size} | {what} | {spent:.0f} |")
        finally:
            process.kill()
            process.wait()


def logged(judge: redis.Redis) -> int:
    facts: dict[str, Any] = judge.info("persistence")
    return int(facts["aof_current_size"])


def memory_of_a_million(url: str, judge: redis.Redis) -> None:
    """Print what is left in Redis when a million requests are done and collected."""
    before = memory(judge)
    with SharedFrontier.open(url, MILLION) as frontier:
        frontier.tend()
        empty = memory(judge) - before
        for begin in range(0, MILLION, 50_000):
            for some in batches(keys(begin, 50_000), 2_000):
                frontier.offer(
                    Offer(f"host{int(key[:8], 16) % 1_000}", key, PAYLOAD)
                    for key in some
                )
                while leases := frontier.lease(2_000, 2_000):
                    frontier.settle((lease, [lease.payload]) for lease in leases)
            collect(frontier)
        assert frontier.finished
        done = sum(counts.done for counts in frontier.counts())
        taken = memory(judge) - before
    before = memory(judge)
    for some in batches(keys(0, MILLION), 1_000):
        judge.sadd("scrapy:dupefilter", *some)
    set_ = memory(judge) - before
    print(
        f"bloomdupe: {taken / done:.2f} bytes a request of {done:,} that are done"
        f" ({empty / 1e6:.1f} MB when it was made); scrapy-redis' set:"
        f" {set_ / MILLION:.1f}, {set_ / MILLION / (taken / done):.1f} times as much"
    )


def collect(frontier: SharedFrontier) -> None:
    """Delete all output but the last entries, as ``bloomdupe collect --delete``."""
    for number in range(frontier.partitions):
        last = frontier.forgotten(number)
        while entries := frontier.entries(number, last, 1_000):
            last = entries[-1].number
            frontier.forget(number, last)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    main(parser.parse_args().rounds)
