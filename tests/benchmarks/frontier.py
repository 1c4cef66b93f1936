"""What the frontier costs: per request, by hosts and by what waits; on resume; on disk.

    python tests/benchmarks/frontier.py [--huge]

CPU time of this process, checkpoints included. ``--huge`` adds 10 million requests
(some minutes, 3 GB of disk).
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from machine import describe
from runner import Report, options
from scrapy import Request, Spider
from scrapy.squeues import PickleLifoDiskQueue
from scrapy.utils.test import get_crawler

from bloomdupe import BloomFilter
from bloomdupe.crawl.requests.serializer import Serializer
from bloomdupe.frontier.frontier import Frontier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

OPERATIONS = 30_000
BETWEEN_CHECKPOINTS = 1_000
PAYLOAD = b"x" * 150
WRITTEN = 200_000
SIZES = (
    (10, 1_000), (10, 100_000), (10_000, 100_000), (100_000, 100_000),
    (10, 1_000_000), (100_000, 1_000_000),
)  # fmt: skip
"""Hosts, and pending requests."""


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def memory() -> float:
    """Resident megabytes now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def place() -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="frontier-")


def fill(owed: Frontier, requests: int, hosts: int) -> None:
    for number in range(requests):
        owed.push(f"host-{number % hosts}.example", 0, PAYLOAD)
        if owed.due:
            owed.checkpoint()
    owed.checkpoint()


def steps(count: int, owed: Frontier) -> Iterator[int]:
    for number in range(count):
        if number % BETWEEN_CHECKPOINTS == 0:
            owed.checkpoint()
        yield number
    owed.checkpoint()


def measure(hosts: int, pending: int) -> tuple[float, float, float]:
    """Return microseconds a push and a pop, and the longest checkpoint in ms."""
    with place() as folder, BloomFilter.open(f"{folder}/s", 1_000_000) as seen:
        owed = Frontier(seen)
        fill(owed, pending, hosts)
        begun = cpu()
        for number in steps(OPERATIONS, owed):
            owed.push(f"host-{number % hosts}.example", 0, PAYLOAD)
        push = cpu() - begun
        # Heads that the pushes left in memory must not flatter the pops.
        for queue in list(owed._queues.values()):
            owed._loaded -= queue.relieve(0)
        begun = cpu()
        longest = 0.0
        for number in range(OPERATIONS):
            if number % BETWEEN_CHECKPOINTS == 0:
                start = time.perf_counter()
                owed.checkpoint()
                longest = max(longest, time.perf_counter() - start)
            entry = owed.lease()
            assert entry is not None
            owed.settle(entry)
        pop = cpu() - begun
    return push / OPERATIONS * 1e6, pop / OPERATIONS * 1e6, longest * 1e3


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
            waiting = owed.pending  # less what the filter took for seen
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
    for hosts, pending in SIZES:
        figures = (f"{each:.1f}" for each in measure(hosts, pending))
        rows.append([f"{hosts:,}", f"{pending:,}", *figures])
    head = ["hosts", "pending", "push µs", "pop µs", "longest checkpoint ms"]
    report.table("Cost of a request", "CPU time, checkpoints included.", head, rows)
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
