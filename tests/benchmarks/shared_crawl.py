"""The costs of a crawl that workers share on Redis, in the same run as its rivals.

    python tests/benchmarks/shared_crawl.py [--pages N] [--links N] [--hosts N]
                                            [--latency SECONDS] [--rounds N]
                                            [--only NAME]

Crawls a site that each worker answers from memory (``InMemory``): a server on
loopback would be the bottleneck, and would take the workers' cores. In each round all
variants take turns: stock Scrapy in memory, a job of ours in a directory, a crawl of
ours shared by 1, 2 and 4 workers, and scrapy-redis with 1, 2 and 4. A redis-server is
started for each crawl; it listens on loopback and keeps nothing on disk.

Figures are medians over the rounds. The costs of workers count from the opening of
the spider to the end of the process: not their start, but the wait for each
other. A round trip is a number of commands that Redis has read at once; a request of
more than 16 kB counts several times.

scrapy-redis runs as in its own example: an ordinary spider with its scheduler and its
filter, and SCHEDULER_PERSIST, because the first worker to end would empty the common
queue otherwise. It ends when its queue is empty for a moment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import redis
from machine import describe
from runner import ADDON, Figures, Report, child, in_turn, options
from support.redis_server import RedisServer

LEASE = {"BLOOMDUPE_REDIS_LEASE": 4}
"""Seconds: the worker that begins waits no longer for one of an earlier round."""
SCRAPY_REDIS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "SCHEDULER_PERSIST": True,
}


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


def server_seconds(client: redis.Redis) -> float:
    facts: dict[str, Any] = client.info("cpu")
    return float(facts["used_cpu_user"]) + float(facts["used_cpu_sys"])


def crawl(variant: Variant, site: dict[str, Any]) -> dict[str, Any]:
    """Crawl once, with fresh processes; return the costs of a page."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = dict(variant.settings)
        judge = None
        if variant.place.endswith("REDIS_URL"):
            server = stack.enter_context(RedisServer(folder / "redis"))
            judge = stack.enter_context(server.client())
            url = server.url("crawl")
            settings[variant.place] = url if variant.rival else url.partition("#")[0]
            judge.config_resetstat()
            before = server_seconds(judge)
        elif variant.place:
            settings[variant.place] = str(folder / "job")
        command = child("InMemory", settings, **site)
        children = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            for _ in range(variant.workers)
        ]
        results = [json.loads(child.communicate()[0]) for child in children]
        ended = time.time()
        spent, trips = 0.0, 0
        if judge is not None:
            spent = server_seconds(judge) - before
            read: dict[str, Any] = judge.info("stats")
            trips = read["total_reads_processed"]
    assert all(result["finish_reason"] == "finished" for result in results), results
    shares = [result.get("response_received_count", 0) for result in results]
    pages = sum(shares)
    last = max(result["last"] for result in results)
    first = min(result["first"] for result in results if result["first"])
    user = sum(result["user"] - result["opened"] for result in results)
    return {
        "pages": pages,  # fetched, by whichever worker
        "speed": pages / (last - first),
        "user": user / pages * 1e6,
        "server": spent / pages * 1e6,
        "trips": trips / pages,
        "end": ended - last,
        "shares": "/".join(map(str, shares)),
    }


def rows(found: dict[str, Figures]) -> Iterator[list[str]]:
    stock = found.get(VARIANTS[0].name)
    for variant in VARIANTS:
        if variant.name not in found:
            continue
        own, rival = found[variant.name], found.get(variant.rival)
        yield [
            variant.name,
            own.median("pages", ",.0f"),
            own.median("user", ",.0f"),
            own.of(stock, "user"),
            own.of(rival, "user"),
            own.median("server", ",.0f"),
            own.of(rival, "server"),
            own.median("trips"),
            own.median("speed", ",.0f"),
            own.of(stock, "speed"),
            f"{own.median('end', '.1f')} s",
            str(own.rounds[-1]["shares"]),
        ]


def main() -> int:
    given = options(
        __doc__, pages=3_000, links=20, hosts=200, latency=0.0, rounds=5, only=""
    )
    with tempfile.TemporaryDirectory() as name, RedisServer(Path(name)) as server:
        info: Any = server.client().info("server")
    packages = ("Scrapy", "Twisted", "scrapy-redis", "redis", "hiredis")
    report = Report(describe(*packages) | {"redis-server": info["redis_version"]})
    names = ("pages", "links", "hosts", "latency")
    site = {name: getattr(given, name) for name in names}
    ways = {
        variant.name: partial(crawl, variant, site)
        for variant in VARIANTS
        if given.only in variant.name
    }
    found = in_turn(given.rounds, ways)
    report.table(
        f"A crawl of {given.pages:,} pages with {given.links} links each",
        f"On {given.hosts} hosts, answered from memory after {given.latency:g} s."
        f" Medians of {given.rounds} rounds in which all take turns; ratios within a"
        " round: median and range.",
        [
            *("workers", "pages", "user CPU a page, µs", "of stock", "of scrapy-redis"),
            *("redis-server a page, µs", "of scrapy-redis", "round trips a page"),
            *("pages/s", "of stock", "until all end", "pages of each worker"),
        ],
        list(rows(found)),
    )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
