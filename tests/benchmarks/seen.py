"""Resuming with very many URLs seen: time to the first request, and memory.

    python tests/benchmarks/seen.py [--urls N] [--rounds N]

A crawl is stopped after its first page; then N fingerprints are added to its filter,
and it is resumed. The server notes when the first request comes, counted from
the start of the command, and the crawl how much memory (RssAnon) its process has by
then, and after as many look-ups as touch every page of the filter.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from machine import describe
from runner import ADDON, Report, crawl, in_turn, options
from support.site import Site

from bloomdupe import BloomFilter

OTHERS = 1_000
"""Room for those that the crawl itself finds: our filter, made for 10 million, is full
with those, and no fuller."""
GOALS = {"seconds": 1.0, "later": 1.0}
"""At most as much as stock needs."""


def fingerprints(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield hashlib.sha1(b"%d" % number).digest()  # noqa: S324 - as Scrapy's


def add_to_stock(job: Path, urls: int) -> None:
    with (job / "requests.seen").open("ab") as file:
        for digest in fingerprints(urls):
            file.write(len(digest).to_bytes(2, "big") + digest)


def add_to_ours(job: Path, urls: int) -> None:
    with BloomFilter.open(job / "bloomdupe") as seen:
        seen.update(fingerprints(urls))


WAYS: dict[str, tuple[dict[str, Any], Callable[[Path, int], None]]] = {
    "stock": ({}, add_to_stock),
    "bloomdupe": (ADDON, add_to_ours),
}


def main() -> int:
    given = options(__doc__, urls=1_000_000, rounds=5)
    report = Report(describe("Scrapy"))
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd()) as name,
        Site(lambda _: "") as site,
    ):
        folder = Path(name)

        def run(way: str) -> dict[str, Any]:
            first, begun = len(site.log), time.time()
            settings = {**WAYS[way][0], "JOBDIR": str(folder / way)}
            urls = [f"{site.base}/"]
            found = crawl("Resumed", settings, finish=None, start_urls=urls)
            return {**found, "seconds": site.log[first].time - begun}

        new = {}
        for way, (_, add) in WAYS.items():
            new[way] = run(way)
            add(folder / way, given.urls - OTHERS)
        found = in_turn(given.rounds, {way: partial(run, way) for way in WAYS})
    rows = [
        [
            way,
            f"{new[way]['seconds']:.2f} s",
            f"{own.median('seconds')} s",
            own.span("seconds"),
            f"{new[way]['at first']:.0f} MB",
            f"{own.median('at first', '.0f')} MB",
            f"{own.median('later', '.0f')} MB",
        ]
        for way, own in found.items()
    ]
    report.table(
        f"Resuming with {given.urls:,} URLs seen",
        "From the start of the command to the first request at the server, and RssAnon"
        f" of the crawl; medians of {given.rounds} rounds in turn.",
        [
            *("", "a new crawl", "first request", "range", "memory, a new crawl"),
            *("at the first page", "all pages touched"),
        ],
        rows,
    )
    for what, goal in GOALS.items():
        ratio = found["bloomdupe"].value(what) / found["stock"].value(what)
        report.bound(f"{what} over stock's", ratio, goal)
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
