"""Resuming with very many URLs seen: time to the first request, and memory.

    python tests/benchmarks/seen.py [--urls N] [--rounds N]

A crawl is stopped after its first page; then N fingerprints are added to what it has
seen, and it is resumed. The server notes when the first request comes, counted from
the start of the command, and the crawl how much memory (RssAnon) its process has by
then, and after as many look-ups as touch every page of the filter.
"""

from __future__ import annotations

import argparse
import hashlib
import http.server
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy
from machine import describe, resident
from report import Report
from scrapy import Spider
from scrapy.crawler import CrawlerProcess

from bloomdupe import BloomFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOKUPS = 100_000
OTHERS = 1_000
"""Room for those that the crawl itself finds: our filter, made for 10 million, is full
with those, and no fuller."""
QUIET = {
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "CONCURRENT_REQUESTS": 1,
    "CLOSESPIDER_PAGECOUNT": 1,
}
GOALS = {"time": 1.0, "memory": 1.0}
"""At most as much as stock needs."""


def fingerprints(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield hashlib.sha1(b"%d" % number).digest()  # noqa: S324 - as Scrapy's


# The crawl


class Links(Spider):
    """Stops after one page, with the links of that page pending."""

    name = "links"
    memory: tuple[int, int] | None = None

    def parse(self, response: Any) -> Iterator[Any]:
        first = resident()[0]
        engine: Any = self.crawler.engine
        filter_ = getattr(engine._slot.scheduler.df, "_filter", None)
        if filter_ is not None:
            for number in range(LOOKUPS):
                filter_.contains(b"%020d" % number)
        self.memory = first, resident()[0]
        for number in range(20):
            yield response.follow(f"/{len(response.url)}-{number}")


def child(url: str, settings: str) -> None:
    process = CrawlerProcess({**QUIET, **json.loads(settings)})
    crawler = process.create_crawler(Links)
    process.crawl(crawler, start_urls=[url])
    process.start()
    spider: Any = crawler.spider
    print(json.dumps(spider.memory))


# The benchmark


class Server(http.server.ThreadingHTTPServer):
    """Answers anything, and notes when it was asked first."""

    first: float | None = None

    def forget(self) -> None:
        """Have no request counted as the first one yet."""
        self.first = None

    def __init__(self) -> None:
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if server.first is None:
                    server.first = time.perf_counter()
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


def run(server: Server, settings: dict[str, Any]) -> tuple[float, int, int]:
    """Crawl a page; return seconds to the first request, and memory twice."""
    server.forget()
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    command = [sys.executable, __file__, "--child", url, json.dumps(settings)]
    begun = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert server.first is not None
    return (server.first - begun, *json.loads(done.stdout))


def add_to_stock(job: Path, urls: int) -> None:
    with (job / "requests.seen").open("ab") as file:
        for digest in fingerprints(urls):
            file.write(len(digest).to_bytes(2, "big") + digest)


def add_to_ours(job: Path, urls: int) -> None:
    with BloomFilter.open(job / "bloomdupe") as seen:
        seen.update(fingerprints(urls))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--urls", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    options = parser.parse_args()
    report = Report({**describe(), "Scrapy": scrapy.__version__})
    server = Server()
    contestants = {
        "stock": ({}, add_to_stock),
        "bloomdupe": ({"ADDONS": {"bloomdupe.Addon": 500}}, add_to_ours),
    }
    found: dict[str, list[tuple[float, int, int]]] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        jobs = {name: {"JOBDIR": str(Path(folder, name))} for name in contestants}
        base = {}
        for name, (settings, add) in contestants.items():
            base[name] = run(server, {**settings, **jobs[name]})
            add(Path(folder, name), options.urls - OTHERS)
            found[name] = []
        for _ in range(options.rounds):
            for name, (settings, _) in contestants.items():
                found[name].append(run(server, {**settings, **jobs[name]}))
    server.shutdown()
    medians = {
        name: [statistics.median(column) for column in zip(*runs, strict=True)]
        for name, runs in found.items()
    }
    rows = [
        [
            name,
            f"{base[name][0]:.2f} s",
            f"{seconds:.2f} s",
            f"{min(run[0] for run in found[name]):.2f}-"
            f"{max(run[0] for run in found[name]):.2f}",
            f"{base[name][1] / 1e6:.0f} MB",
            f"{first / 1e6:.0f} MB",
            f"{later / 1e6:.0f} MB",
        ]
        for name, (seconds, first, later) in medians.items()
    ]
    report.table(
        f"Resuming with {options.urls:,} URLs seen",
        "From the start of the command to the first request at the server, and RssAnon"
        f" of the crawl; medians of {options.rounds} rounds in turn.",
        [
            "",
            "a new crawl",
            "first request",
            "range",
            "memory, a new crawl",
            "at the first page",
            "all pages touched",
        ],
        rows,
    )
    ours, stock = medians["bloomdupe"], medians["stock"]
    report.bound("time over stock's", ours[0] / stock[0], GOALS["time"])
    report.bound("memory over stock's", ours[2] / stock[2], GOALS["memory"])
    return report.finish(None)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        sys.exit(main())
