"""How long a checkpoint stops a crawl when one page yields very many new links.

    python tests/benchmarks/checkpoints.py [--rounds N]

A real crawl with JOBDIR, of one page; its callback yields the links, on so many hosts.
A checkpoint blocks everything else; it is judged by its CPU time, as wall time on a
shared machine is that of the neighbours. Python's garbage collector, which may strike
anywhere, is shown apart.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from machine import describe, sync_times
from runner import ADDON, Report, crawl, graph, in_turn, options

CASES = [(1_000, 1), (1_000, 1_000), (100_000, 1), (100_000, 1_000), (100_000, 100_000)]
GOALS = {1_000: 25, 100_000: 100}
"""Milliseconds at most, by changes."""


def burst(url: str, links: int, hosts: int) -> dict[str, Any]:
    job = {**ADDON, "JOBDIR": "job"}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        found = crawl(
            "Burst", job, folder=Path(folder), finish=None,
            start_urls=[url], links=links, hosts=hosts,
        )  # fmt: skip
    assert found["bloomdupe/pending"] >= links - 8 - hosts, found
    return found


def main() -> int:
    given = options(__doc__, rounds=5)
    report = Report(describe("Scrapy"))
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as disk:
        syncs = sorted(sync_times(Path(disk), 200))
    with graph(1, 4) as url:
        for links, hosts in CASES:
            own = in_turn(given.rounds, {"": partial(burst, url, links, hosts)})[""]
            cpu = report.bound(f"{links} links", own.value("cpu"), GOALS[links], ".0f")
            count, alone = own.median("checkpoints", ".0f"), own.median("own", ".0f")
            range_, wall = own.span("cpu", ".0f"), own.median("wall", ".0f")
            rows.append([f"{links:,}", f"{hosts:,}", count, alone, cpu, range_, wall])
    report.table(
        "How long a checkpoint stops the crawl",
        f"Longest of a crawl in ms, medians of {given.rounds} crawls. This disk takes"
        f" {1e3 * syncs[100]:.1f} ms to sync 4 kB, {1e3 * syncs[-1]:.1f} at most.",
        ["new links", "hosts", "checkpoints", "CPU without gc", "CPU", "range", "wall"],
        rows,
    )
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
