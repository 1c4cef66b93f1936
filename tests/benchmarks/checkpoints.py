"""How long a checkpoint stops a crawl when one page yields very many new links.

    python tests/benchmarks/checkpoints.py [--rounds N]

A real crawl with JOBDIR, of one page; its callback yields the links, on so many hosts.
A checkpoint blocks everything else; it is judged by its CPU time, as wall time on a
shared machine is that of the neighbours. Python's garbage collector, which may strike
anywhere, is shown apart.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import scrapy
from crawl import graph
from machine import describe, sync_times
from report import Report
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

from bloomdupe.crawl.engines.checkpoint import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = [(1_000, 1), (1_000, 1_000), (100_000, 1), (100_000, 1_000), (100_000, 100_000)]
GOALS = {1_000: 25, 100_000: 100}
"""Milliseconds at most, by changes."""


class Burst(Spider):
    name = "burst"
    links = hosts = 0

    def parse(self, _: Any) -> Iterator[Request]:
        for number in range(self.links):
            host = f"host-{number % self.hosts}.example"
            yield Request(f"http://{host}/articles/2026/a-page-{number}.html")


def watch(times: list[tuple[float, float, float]]) -> None:
    """Note wall time, CPU time and CPU time without gc of each commit, in ms."""
    commit = Checkpoint.commit
    collecting = [0.0, 0.0]

    def collect(phase: str, _: object) -> None:
        collecting[1] = process_time() - collecting[1]
        if phase == "stop":
            collecting[0] += collecting[1]
            collecting[1] = 0.0

    def timed(cut: Checkpoint) -> None:
        wall, cpu, before = perf_counter(), process_time(), collecting[0]
        commit(cut)
        wall, cpu = perf_counter() - wall, process_time() - cpu
        times.append((1e3 * wall, 1e3 * cpu, 1e3 * (cpu - collecting[0] + before)))

    gc.callbacks.append(collect)
    Checkpoint.commit = timed  # type: ignore[method-assign, assignment]


def child(url: str, folder: str, links: str, hosts: str) -> None:
    process = CrawlerProcess(
        {
            "ADDONS": {"bloomdupe.Addon": 500},
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            "JOBDIR": folder,
            "DOWNLOAD_DELAY": 60,  # so that no link is followed
            "CLOSESPIDER_PAGECOUNT": 1,
        }
    )
    times: list[tuple[float, float, float]] = []
    watch(times)
    crawler = process.create_crawler(Burst)
    process.crawl(crawler, start_urls=[url], links=int(links), hosts=int(hosts))
    process.start()
    pending = crawler.stats.get_value("bloomdupe/pending")
    print(json.dumps([pending, len(times), *map(max, zip(*times, strict=True))]))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    rounds = parser.parse_args().rounds
    report = Report({**describe(), "Scrapy": scrapy.__version__})
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as disk:
        syncs = sorted(sync_times(Path(disk), 200))
    with graph(1, 4) as url:
        for links, hosts in CASES:
            found = []
            for _ in range(rounds):
                with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
                    command = [sys.executable, __file__, "--child", url, folder]
                    command += [str(links), str(hosts)]
                    done = subprocess.run(
                        command, stdout=subprocess.PIPE, text=True, check=True
                    )
                pending, *figures = json.loads(done.stdout)
                assert pending >= links - 8 - hosts, pending
                found.append(figures)
            count, wall, cpu, own = map(statistics.median, zip(*found, strict=True))
            rows.append(
                [
                    f"{links:,}",
                    f"{hosts:,}",
                    f"{count:.0f}",
                    f"{own:.0f}",
                    report.bound(f"{links} links", cpu, GOALS[links], ".0f"),
                    f"{min(f[2] for f in found):.0f}-{max(f[2] for f in found):.0f}",
                    f"{wall:.0f}",
                ]
            )
    report.table(
        "How long a checkpoint stops the crawl",
        f"Longest of a crawl in ms, medians of {rounds} crawls. This disk takes"
        f" {1e3 * syncs[100]:.1f} ms to sync 4 kB, {1e3 * syncs[-1]:.1f} at most.",
        [
            "new links",
            "hosts",
            "checkpoints",
            "CPU without gc",
            "CPU",
            "range",
            "wall",
        ],
        rows,
    )
    return report.finish(None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        sys.exit(main())
