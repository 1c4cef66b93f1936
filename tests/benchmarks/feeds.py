"""The costs of items that come exactly once: CPU and memory against Scrapy's feeds.

    python tests/benchmarks/feeds.py [--rounds N] [--pages N]

A site on loopback, crawled with ``JOBDIR`` by the same spider, which yields 20 items a
page into a file in JSON lines and into one in CSV: once with our feed exporter, once
with Scrapy's in its place. Figures are medians over rounds in which both take turns;
then one page that brings 100,000 items.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from machine import describe
from runner import ADDON, Report, crawl, graph, in_turn, options

THEIRS = "scrapy.extensions.feedexport.FeedExporter"
WAYS: dict[str, dict[str, Any]] = {
    "Scrapy's": {"EXTENSIONS": {THEIRS: None, "crawl_child.Scrapys": 0}},
    "bloomdupe's": {},
}
FEEDS = {"items.jsonl": {"format": "jsonlines"}, "items.csv": {"format": "csv"}}


def measure(base: str, items: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Crawl, and see that each item is there."""
    with tempfile.TemporaryDirectory() as name:
        job = {**ADDON, "JOBDIR": "job", "FEEDS": FEEDS, **settings}
        found = crawl("Shop", job, folder=Path(name), start_urls=[base], items=items)
        for file in FEEDS:
            lines = Path(name, file).read_text().count("\n")
            assert lines == found["item_scraped_count"] + file.endswith("csv"), file
    return found


def main() -> int:
    given = options(__doc__, rounds=5, pages=1000)
    report = Report(describe("Scrapy"))
    with graph(given.pages, 4) as first:
        last = f"{first.removesuffix('0')}{given.pages - 1}"
        for title, url, items, rounds in (
            (f"{given.pages:,} pages of 20 items, two feeds", first, 20, given.rounds),
            ("One page of 100,000 items", last, 100_000, 1),
        ):
            ways = {n: partial(measure, url, items, s) for n, s in WAYS.items()}
            found = in_turn(rounds, ways)
            rows = [
                [
                    name,
                    own.median("user"),
                    own.median("all"),
                    own.of(found["Scrapy's"], "user"),
                    own.median("peak", ",.0f"),
                    own.median("bloomdupe/checkpoint_seconds_max", ".1f", 1e3),
                ]
                for name, own in found.items()
            ]
            report.table(
                title,
                f"Medians of {rounds} rounds.",
                ["feeds", "user s", "user+sys s", "of Scrapy's", "MB", "checkpoint ms"],
                rows,
            )
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
