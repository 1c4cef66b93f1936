"""What a crawl costs that workers share on Redis, in the same run as its rivals.

    python tests/benchmarks/shared_crawl.py [--pages N] [--links N] [--hosts N]
                                            [--latency SECONDS] [--rounds N]

Crawls a site that each worker answers from memory (``from_memory.py``): a server on
loopback would be the bottleneck, and would take the workers' cores. In each round all
variants take turns: stock Scrapy in memory, a job of ours in a directory, a crawl of
ours shared by 1, 2 and 4 workers, and scrapy-redis with 1, 2 and 4. A redis-server is
started for each crawl; it listens on loopback and keeps nothing on disk.

Figures are medians over the rounds. Of the workers, what they spend from the opening of
the spider to the end of the process counts: not their start, but the wait for each
other. A round trip is a command, a script or a transaction that a worker has sent.

scrapy-redis runs as in its own example: an ordinary spider with its scheduler and its
filter, and SCHEDULER_PERSIST, because the first worker to end would empty the queue of
the others otherwise. It ends when its queue is empty for a moment.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import redis
from machine import RIVALS, describe, version
from redis_filter import server_seconds
from report import Report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HERE = Path(__file__).parent
ADDON = {"ADDONS": {"bloomdupe.Addon": 500}}
LEASE = {"BLOOMDUPE_REDIS_LEASE": 4}
"""Seconds. Up to a quarter of it passes before the first worker gives partitions to
others: with the default of 30, a crawl as short as this one would be over by then."""
SCRAPY_REDIS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "SCHEDULER_PERSIST": True,
}
ROUND_TRIPS = ("evalsha", "hgetall", "sadd", "zadd", "exec", "zcard")
"""Commands that arrive by themselves; those of scripts and transactions are others."""


class Variant(NamedTuple):
    name: str
    workers: int = 1
    settings: Mapping[str, Any] = MappingProxyType({})
    place: str = ""
    """The setting that says where the crawl is kept."""
    rival: str = ""
    """The variant that it is compared with, besides stock Scrapy."""


def ours(workers: int) -> Variant:
    rival = f"scrapy-redis, {workers}"
    settings = {**ADDON, **LEASE}
    place = "BLOOMDUPE_REDIS_URL"
    return Variant(f"shared, {workers}", workers, settings, place, rival)


VARIANTS = [
    Variant("stock, in memory"),
    Variant("bloomdupe, JOBDIR", 1, ADDON, "JOBDIR"),
    *map(ours, (1, 2, 4)),
    *(Variant(f"scrapy-redis, {n}", n, SCRAPY_REDIS, "REDIS_URL") for n in (1, 2, 4)),
]


class Cost(NamedTuple):
    """Of one crawl; a page is one that was fetched, by whomever."""

    pages: int
    speed: float
    """Pages a second, from the first page to the last one."""
    user: float
    """Microseconds a page, of all workers together."""
    server: float
    """Likewise, of redis-server, user and system."""
    trips: float
    """Round trips a page."""
    end: float
    """Seconds from the last page until all workers have ended."""
    shares: list[int]
    """Pages of each worker."""


@contextmanager
def redis_server(folder: Path) -> Iterator[redis.Redis]:
    """Start one that nobody has used, and end it."""
    socket = folder / "socket"
    command = ["redis-server", "--port", "0", "--unixsocket", str(socket)]
    command += ["--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while not socket.exists():
            time.sleep(0.01)
        client = redis.Redis(unix_socket_path=str(socket))
        try:
            yield client
        finally:
            process.kill()


def crawl(variant: Variant, site: list[str]) -> Cost:
    """Crawl once, with fresh processes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = dict(variant.settings)
        judge = None
        if variant.place.endswith("REDIS_URL"):
            judge = stack.enter_context(redis_server(folder))
            name = "#crawl" if variant.rival else ""
            settings[variant.place] = f"unix://{folder}/socket{name}"
            judge.config_resetstat()
            before = server_seconds(judge)
        elif variant.place:
            settings[variant.place] = str(folder / "job")
        command = [sys.executable, str(HERE / "from_memory.py"), *site]
        command.append(json.dumps(settings))
        children = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            for _ in range(variant.workers)
        ]
        results = [json.loads(child.communicate()[0]) for child in children]
        ended = time.time()
        spent, trips = 0.0, 0
        if judge is not None:
            spent = server_seconds(judge) - before
            calls: dict[str, Any] = judge.info("commandstats")
            for command_name in ROUND_TRIPS:
                trips += calls.get(f"cmdstat_{command_name}", {"calls": 0})["calls"]
    assert all(result["reason"] == "finished" for result in results), results
    shares = [result["pages"] or 0 for result in results]
    pages = sum(shares)
    last = max(result["last"] for result in results)
    first = min(result["first"] for result in results if result["first"])
    user = sum(result["user"] - result["opened"] for result in results)
    return Cost(
        pages,
        pages / (last - first),
        user / pages * 1e6,
        spent / pages * 1e6,
        trips / pages,
        ended - last,
        shares,
    )


def rows(results: dict[str, list[Cost]]) -> Iterator[list[str]]:
    stock = results[VARIANTS[0].name]
    for variant in VARIANTS:
        costs = results[variant.name]
        rival = results[variant.rival] if variant.rival else None
        yield [
            variant.name,
            f"{_median(costs, 'pages'):,.0f}",
            f"{_median(costs, 'user'):,.0f}",
            _ratio(costs, stock, "user"),
            _ratio(costs, rival, "user"),
            f"{_median(costs, 'server'):,.0f}",
            _ratio(costs, rival, "server"),
            f"{_median(costs, 'trips'):.2f}",
            f"{_median(costs, 'speed'):,.0f}",
            _ratio(costs, stock, "speed"),
            f"{_median(costs, 'end'):.1f} s",
            "/".join(map(str, costs[-1].shares)),
        ]


def _median(costs: list[Cost], what: str) -> float:
    values: list[float] = [getattr(cost, what) for cost in costs]
    return statistics.median(values)


def _ratio(costs: list[Cost], others: list[Cost] | None, what: str) -> str:
    if others is None:
        return "-"
    ratios = [
        getattr(cost, what) / getattr(other, what)
        for cost, other in zip(costs, others, strict=True)
    ]
    low, high = min(ratios), max(ratios)
    return f"{statistics.median(ratios):.2f} ({low:.2f}-{high:.2f})"


def facts() -> dict[str, str]:
    found = {name: what for name, what in describe().items() if name not in RIVALS}
    for package in ("Scrapy", "Twisted", "redis", "hiredis", "scrapy-redis"):
        found[package] = version(package)
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name)) as client:
        info: dict[str, Any] = client.info("server")
        found["redis-server"] = f"{info['redis_version']}, on a socket of its own"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=3_000, metavar="N")
    parser.add_argument("--links", type=int, default=20, metavar="N")
    parser.add_argument("--hosts", type=int, default=200, metavar="N")
    parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    given = parser.parse_args()
    report = Report(facts())
    site = [str(given.pages), str(given.links), str(given.hosts)]
    if given.latency:
        site.append(f"--latency={given.latency}")
    results: dict[str, list[Cost]] = {variant.name: [] for variant in VARIANTS}
    for _ in range(given.rounds):
        for variant in VARIANTS:
            results[variant.name].append(crawl(variant, site))
    report.table(
        f"A crawl of {given.pages:,} pages with {given.links} links each",
        f"On {given.hosts} hosts, answered from memory after {given.latency:g} s."
        f" Medians of {given.rounds} rounds in which all take turns; ratios within a"
        " round: median and range.",
        [
            "workers",
            "pages",
            "user CPU a page, µs",
            "of stock",
            "of scrapy-redis",
            "redis-server a page, µs",
            "of scrapy-redis",
            "round trips a page",
            "pages/s",
            "of stock",
            "until all end",
            "pages of each worker",
        ],
        list(rows(results)),
    )
    return report.finish(None)


if __name__ == "__main__":
    sys.exit(main())
