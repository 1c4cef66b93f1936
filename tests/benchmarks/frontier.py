"""The costs of the frontier: by hosts, their order, and pending requests; on disk.

    python tests/benchmarks/frontier.py [--huge]

CPU time of this process, with marks and checkpoints. ``--huge`` adds 8 million pending
requests, and 10 million to be resumed (some minutes, 3 GB of disk).
"""

from __future__ import annotations

import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from machine import describe
from runner import Report, options
from scrapy import Request, Spider
from scrapy.squeues import PickleLifoDiskQueue
from scrapy.utils.test import get_crawler

from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.requests.serializer import Serializer

OPERATIONS = 50_000
BETWEEN_CHECKPOINTS = 2_500
PAYLOAD = b"x" * 150
WRITTEN = 200_000
SIZES = (
    (1, 300_000), (10, 300_000), (10_000, 300_000), (100_000, 300_000),
    (100_000, 1_000_000),
)  # fmt: skip
"""Hosts, and pending requests."""
HUGE = ((1, 8_000_000), (100_000, 8_000_000))
GOALS = (15, 25)
"""Microseconds a push and milliseconds a checkpoint, with 300,000 pending requests."""


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def memory() -> float:
    """Resident megabytes now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def place() -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="frontier-")


def in_turn(hosts: int) -> Iterator[str]:
    """Yield the slots of new requests, one after the other: the kindest order."""
    while True:
        for number in range(hosts):
            yield f"host-{number}.example"


def at_random(hosts: int) -> Iterator[str]:
    """Yield the slots of new requests as a crawl of the web finds them."""
    rng = random.Random(1)
    while True:
        yield f"host-{rng.randrange(hosts)}.example"


ORDERS = {"in turn": in_turn, "at random": at_random}


class Measured(NamedTuple):
    """The costs of requests."""

    push: float
    """Microseconds."""
    pop: float
    """Microseconds to lease and settle."""
    checkpoint: float
    """Milliseconds: the median of those that are due while requests are pushed."""
    longest: float
    requests: float
    """Requests in such a checkpoint."""


class Cost:
    """The CPU time of some operations."""

    def __init__(self, owed: Frontier) -> None:
        self._owed = owed
        self._begun = cpu()
        self._done = 0
        self._since = 0
        self.checkpoints: list[float] = []

    def one_done(self) -> None:
        self._done += 1
        self._since += 1
        if self._owed.due or self._since == BETWEEN_CHECKPOINTS:
            self._since = 0
            begun = cpu()
            self._owed.checkpoint()
            self.checkpoints.append(1e3 * (cpu() - begun))

    @property
    def each(self) -> float:
        return 1e6 * (cpu() - self._begun) / self._done


def measure(hosts: int, pending: int, order: str) -> Measured:
    with place() as folder, BloomFilter.open(f"{folder}/s", 10_000_000) as seen:
        owed = Frontier(seen)
        slots = ORDERS[order](hosts)

        def push(count: int) -> Cost:
            cost = Cost(owed)
            for slot in islice(slots, count):
                seen.add(b"%020d" % owed.sequence)
                owed.push(slot, 0, PAYLOAD)
                cost.one_done()
            return cost

        push(pending)
        pushes = push(OPERATIONS)
        push_each = pushes.each
        # Heads that the pushes left in memory must not flatter the pops.
        for queue in list(owed.slots):
            owed._loaded -= queue.relieve(0)
        pops = Cost(owed)
        for _ in range(OPERATIONS):
            entry = owed.lease()
            assert entry is not None
            owed.settle(entry)
            pops.one_done()
        checkpoints = pushes.checkpoints
        middle = statistics.median(checkpoints)
        each = OPERATIONS / len(checkpoints)
        return Measured(push_each, pops.each, middle, max(checkpoints), each)


def typical_request(number: int) -> Request:
    return Request(
        f"https://www.example.com/articles/{number // 1000}/some-title-{number}.html",
        headers={"Referer": f"https://www.example.com/articles/{number // 1000}/"},
        meta={"depth": 7},
    )


def disk(hosts: int) -> float:
    """Return bytes that a pending request takes on disk, in random order of hosts."""
    rng = random.Random(1)
    serializer = Serializer(Spider("name"))
    with place() as folder, BloomFilter.open(f"{folder}/s", 1_000_000) as seen:
        assert seen._store is not None
        before = seen._store.disk_bytes()
        owed = Frontier(seen)
        for number in range(WRITTEN):
            payload = serializer.dump(typical_request(number))
            owed.push(f"host-{rng.randrange(hosts)}", 0, payload)
            if owed.due:
                owed.checkpoint()
        owed.checkpoint()
        return (seen._store.disk_bytes() - before) / WRITTEN


def disk_of_scrapy() -> float:
    """Return bytes that a pending request takes in a disk queue of Scrapy's."""
    with place() as folder:
        crawler = get_crawler()
        crawler.spider = Spider("name")
        queue = PickleLifoDiskQueue.from_crawler(  # type: ignore[attr-defined]
            crawler, f"{folder}/queue"
        )
        for number in range(WRITTEN):
            queue.push(typical_request(number))
        queue.close()
        return Path(folder, "queue").stat().st_size / WRITTEN


RESUME = """
import sys, time
sys.path.insert(0, {here!r})
from frontier import memory
from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier
import scrapy
empty = memory()
begun = time.perf_counter()
with BloomFilter.open({store!r}) as seen:
    owed = Frontier(seen)
    assert owed.lease() is not None
    first = time.perf_counter() - begun
    print(f"{{first:.3f}} {{memory() - empty:.1f}}")
    assert owed.pending == {pending} - 1
"""


def resume(pending: int, hosts: int) -> tuple[float, float, float]:
    """Return seconds to the first request, megabytes, and bytes on disk a request."""
    with place() as folder:
        store = f"{folder}/s"
        with BloomFilter.open(store, 10_000_000) as seen:
            owed = Frontier(seen)
            for number in range(pending):
                name = b"%020d" % number
                if seen.add(name):
                    owed.push(f"host-{number % hosts}.example", 0, PAYLOAD)
                if owed.due:
                    owed.checkpoint()
            owed.checkpoint()
            assert seen._store is not None
            size = seen._store.disk_bytes() / pending
            waiting = owed.pending  # less the false positives of the filter
        here = str(Path(__file__).parent)
        code = RESUME.format(here=here, store=store, pending=waiting)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        seconds, megabytes = map(float, done.stdout.split())
        shutil.rmtree(store)
    return seconds, megabytes, size


def main() -> int:
    given = options(__doc__, huge=False)
    report = Report(describe("Scrapy"))
    rows = []
    for hosts, pending in SIZES + HUGE * given.huge:
        for order in ORDERS if hosts > 1 else ("in turn",):
            found = measure(hosts, pending, order)
            push, checkpoint = f"{found.push:.1f}", f"{found.checkpoint:.1f}"
            if order == "at random" and pending == 300_000:
                what = f"{hosts} hosts"
                push = report.bound(f"push, {what}", found.push, GOALS[0], ".1f")
                checkpoint = report.bound(
                    f"checkpoint, {what}", found.checkpoint, GOALS[1], ".1f"
                )
            figures = (
                push, f"{found.pop:.1f}", f"{found.requests:,.0f}", checkpoint,
                f"{found.longest:.1f}",
            )  # fmt: skip
            rows.append([f"{hosts:,}", order, f"{pending:,}", *figures])
    report.table(
        "Cost of a request",
        "CPU time. A checkpoint is written when it is due, or after"
        f" {BETWEEN_CHECKPOINTS:,} requests.",
        [
            "hosts", "order", "pending", "push µs", "lease and settle µs",
            "requests a checkpoint", "ms", "longest ms",
        ],
        rows,
    )  # fmt: skip
    theirs = disk_of_scrapy()
    rows = [["Scrapy's disk queue", f"{theirs:.0f}", "1.00"]]
    for hosts in (1, 10, 1_000, 100_000):
        ours = disk(hosts)
        rows.append([f"{hosts:,} hosts", f"{ours:.0f}", f"{ours / theirs:.2f}"])
    report.table("Disk", "Bytes a pending request.", ["", "bytes", "ratio"], rows)
    rows = []
    for pending in (1_000_000, 10_000_000)[: 1 + given.huge]:
        seconds, megabytes, size = resume(pending, 100_000)
        taken = (f"{seconds:.2f} s", f"{megabytes:.0f} MB", f"{size:.0f}")
        rows.append([f"{pending:,}", *taken])
    head = ["pending", "first request", "memory", "bytes of disk each"]
    report.table("Resuming", "Requests on 100,000 hosts.", head, rows)
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
