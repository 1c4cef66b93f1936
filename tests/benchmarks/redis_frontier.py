"""The frontier that workers share on Redis, beside scrapy-redis.

``python tests/benchmarks/redis_frontier.py [--rounds N]`` starts a redis-server of its
own and prints microseconds a request: of the client's user CPU, of the server's CPU,
and altogether, for links that are new, links that are seen, and requests that are
handed out and settled with a line each, 500 at a time. Then the server's CPU by how
go into one script, and how many a second that makes if it has one core; and the bytes
that they add to Redis' log. Then the memory of pending requests, and the rest of a
million that were done and lost their lines, on 1,000 hosts in 64 partitions, beside
scrapy-redis' set of their fingerprints.

Payloads have 200 bytes, fingerprints are 40 hex digits, on 100 hosts in 16 partitions.
scrapy-redis' part is the commands of its 0.9: SADD for each link and ZADD for a new
one, a round trip each; to get a request, ZRANGE and ZREMRANGEBYRANK in a transaction.
It knows neither leases nor output.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from redis_filter import PARTS, batches, cost, fact, facts, keys, memory
from runner import Figures, Report, options
from support.redis_server import RedisServer

from bloomdupe.redis.partition import Offer
from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

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


def main() -> int:
    given = options(__doc__, rounds=ROUNDS)
    report = Report(facts())
    with tempfile.TemporaryDirectory() as name:
        with RedisServer(Path(name, "redis")) as server, server.client() as judge:
            with SharedFrontier.open(
                server.url("crawl"), MILLION, partitions=16
            ) as frontier:
                frontier.tend()
                ways = {
                    "bloomdupe": shared(frontier),
                    "scrapy-redis": scrapy_redis(judge),
                }
                costs(report, ways, judge, given.rounds)
                waiting(report, ways, judge)
            scripts(report, server.url("scripts"), judge, given.rounds)
            memory_of_a_million(report, server.url("million"), judge)
        log = Path(name, "logged"), "--appendonly", "yes"
        with RedisServer(*log) as server, server.client() as judge:
            logs(report, server.url("logged"), judge)
    return report.finish(given.json)


def adding(do: Do) -> Callable[[Sequence[bytes]], list[bool]]:
    """Return a verb as :func:`redis_filter.cost` calls it."""

    def add(batch: Sequence[bytes]) -> list[bool]:
        do(batch)
        return []

    return add


def costs(
    report: Report, ways: dict[str, dict[str, Do]], judge: redis.Redis, rounds: int
) -> None:
    found: dict[tuple[str, str], Figures] = {}
    for number in range(rounds):
        links = keys(number * LINKS, LINKS)
        for way, verbs in ways.items():
            for what, do in verbs.items():
                own = found.setdefault((what, way), Figures())
                own.rounds.append(cost(adding(do), judge, links, BATCH))
    rows = [
        [*names, *(own.median(part, ".1f") for part in PARTS)]
        for names, own in sorted(found.items())
    ]
    head = ["request", "", *PARTS]
    report.table("Microseconds a request", f"Medians of {rounds} rounds.", head, rows)


def waiting(report: Report, ways: dict[str, dict[str, Do]], judge: redis.Redis) -> None:
    """Measure the memory of pending requests."""
    links = keys(10 * MILLION, MILLION // 5)
    rows = []
    for way, verbs in ways.items():
        before = memory(judge)
        for some in batches(links, 1_000):
            verbs["new"](some)
        rows.append([way, f"{(memory(judge) - before) / len(links):.0f}"])
    report.table("Memory", "Of pending requests.", ["", "bytes a request"], rows)


def scripts(report: Report, url: str, judge: redis.Redis, rounds: int) -> None:
    found: dict[int, dict[str, Figures]] = {size: {} for size in SCRIPTS}
    with SharedFrontier.open(url, MILLION, partitions=1) as frontier:
        frontier.tend()
        verbs = shared(frontier)
        first = 20 * MILLION
        for _ in range(rounds):
            for size, count in SCRIPTS.items():
                links = keys(first, count)
                first += count
                for what, do in verbs.items():
                    own = found[size].setdefault(what, Figures())
                    own.rounds.append(cost(adding(do), judge, links, size))
    rows = []
    for size, costs in found.items():
        spent = [own.value("server") for own in costs.values()]
        rows.append(
            [str(size), *(f"{each:.1f} ({1e6 / each:,.0f}/s)" for each in spent)]
        )
    note = "Microseconds of the server a request, and requests a second of its core."
    report.table("By the size of a script", note, ["in one script", *verbs], rows)


def logs(report: Report, url: str, judge: redis.Redis) -> None:
    rows = []
    with SharedFrontier.open(url, MILLION, partitions=1) as frontier:
        frontier.tend()
        verbs = shared(frontier)
        for place, size in enumerate((1, 16)):
            links = keys(place * LINKS, LINKS // 4)
            for what, do in verbs.items():
                before = fact(judge, "persistence", "aof_current_size")
                for some in batches(links, size):
                    do(some)
                spent = fact(judge, "persistence", "aof_current_size") - before
                rows.append([str(size), what, f"{spent / len(links):.0f}"])
    head = ["in one script", "", "bytes"]
    report.table("Log of Redis", "Bytes a request.", head, rows)


def memory_of_a_million(report: Report, url: str, judge: redis.Redis) -> None:
    """Measure what is left in Redis when a million requests are done and collected."""
    ours = left_of_a_million(url, judge)
    before = memory(judge)
    for some in batches(keys(0, MILLION), 1_000):
        judge.sadd("scrapy:dupefilter", *some)
    theirs = (memory(judge) - before) / MILLION
    report.table(
        "A million requests that are done",
        "",
        ["", "bytes a request"],
        [
            ["bloomdupe", f"{ours:.2f}"],
            ["scrapy-redis' set", f"{theirs:.1f} ({theirs / ours:.1f} times as much)"],
        ],
    )


def left_of_a_million(url: str, judge: redis.Redis) -> float:
    """Return the bytes that are left of each of a million requests."""
    before = memory(judge)
    with SharedFrontier.open(url, MILLION) as frontier:
        frontier.tend()
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
        return (memory(judge) - before) / done


def collect(frontier: SharedFrontier) -> None:
    """Delete all output but the last entries, as ``bloomdupe collect --delete``."""
    for number in range(frontier.partitions):
        last = frontier.forgotten(number)
        while entries := frontier.entries(number, last, 1_000):
            last = entries[-1].number
            frontier.forget(number, last)


if __name__ == "__main__":
    sys.exit(main())
