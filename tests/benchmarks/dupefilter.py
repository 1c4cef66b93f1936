"""Memory, disk and time of our dupefilter beside Scrapy's own, a million URLs each.

    python tests/benchmarks/dupefilter.py [--urls N]

Each filter runs in a process of its own and sees N distinct requests. Memory is the
growth of the process (anonymous pages), with the default size of 10 million expected
URLs and with the exact number.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import describe, resident
from runner import Report, options
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object

OURS = "bloomdupe.BloomDupeFilter"
STOCK = "scrapy.dupefilters.RFPDupeFilter"


def url(number: int) -> str:
    return f"https://www.example.org/articles/2026/some-article-title-{number}"


def make(dupefilter: str, settings: dict[str, Any]) -> Any:
    """Return a dupefilter as a crawl makes it, opened."""
    crawler = Crawler(Spider, settings)
    crawler.spider = Spider("benchmark")
    for name in ("stats", "request_fingerprinter"):
        setting = {"stats": "STATS_CLASS"}.get(name, "REQUEST_FINGERPRINTER_CLASS")
        cls = load_object(crawler.settings[setting])
        made = cls(crawler) if name == "stats" else build_from_crawler(cls, crawler)
        setattr(crawler, name, made)
    filter_ = build_from_crawler(load_object(dupefilter), crawler)
    filter_.open()
    return filter_


def measure(dupefilter: str, settings: dict[str, Any], urls: int) -> dict[str, float]:
    """Show a filter that many requests, and then open it again."""
    before, _ = resident()
    filter_ = make(dupefilter, settings)
    requests = (Request(url(number)) for number in range(urls))
    begin = time.process_time()
    seen = sum(map(filter_.request_seen, requests))
    cpu = time.process_time() - begin
    grown = resident()[0] - before
    filter_.close("shutdown")
    begin = time.perf_counter()
    again = make(dupefilter, settings)
    opening = time.perf_counter() - begin
    assert again.request_seen(Request(url(0)))
    assert seen <= 5, "far too many false positives"
    again.close("finished")
    files = [file for file in Path(settings["JOBDIR"]).rglob("*") if file.is_file()]
    disk = sum(file.stat().st_blocks * 512 for file in files)
    return {
        "memory": grown / urls,
        "disk": disk / urls,
        "cpu": 1e6 * cpu / urls,
        "opening": 1e3 * opening,
    }


def main() -> int:
    given = options(__doc__, urls=1_000_000)
    urls = given.urls
    report = Report(describe("Scrapy"))
    contestants = [
        ("Scrapy's RFPDupeFilter", STOCK, {}),
        ("bloomdupe, sized for 10 M (default)", OURS, {}),
        (f"bloomdupe, sized for {urls:,}", OURS, {"BLOOMDUPE_EXPECTED_URLS": urls}),
    ]
    rows = []
    for name, dupefilter, settings in contestants:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
            job = {**settings, "JOBDIR": directory}
            # A fresh process: nothing left over from the one before.
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                row = pool.apply(measure, (dupefilter, job, urls))
        rows.append(
            [
                name,
                f"{row['memory']:.1f}",
                f"{row['disk']:.1f}",
                f"{row['cpu']:.1f}",
                f"{row['opening']:.0f}",
            ]
        )
    report.table(
        f"{urls:,} URLs seen",
        "Per URL, RssAnon in bytes, disk in bytes, and CPU in microseconds from Request"
        " to verdict; then the time to open the filter again.",
        ["", "memory", "disk", "CPU", "opening, ms"],
        rows,
    )
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
