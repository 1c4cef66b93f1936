"""A server that is away for some time: what a crawl gives up, and how often it asks.

    python tests/benchmarks/away.py [--seconds 30] [--requests 1000]

The server closes each connection without an answer while it is away. One crawl is
Scrapy's own, one with bloomdupe as it is, one with BLOOMDUPE_RETRY_BACKOFF.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import scrapy

SPIDER = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess


class Many(scrapy.Spider):
    name = "many"

    async def start(self):
        for number in range(int(sys.argv[2])):
            yield scrapy.Request(f"{sys.argv[1]}/{number}", errback=self.lost)

    def parse(self, response):
        yield {"page": response.url}

    def lost(self, failure):
        self.crawler.stats.inc_value("lost")


process = CrawlerProcess(json.loads(sys.argv[3]))
crawler = process.create_crawler(Many)
process.crawl(crawler)
process.start()
stats = crawler.stats.get_stats()
print(json.dumps([stats.get("lost", 0), stats.get("item_scraped_count", 0)]))
"""

STOCK = {"LOG_LEVEL": "CRITICAL", "TELNETCONSOLE_ENABLED": False}
OURS = {**STOCK, "ADDONS": {"bloomdupe.Addon": 500}, "JOBDIR": "job"}
CRAWLS = {
    "Scrapy": STOCK,
    "bloomdupe": OURS,
    "bloomdupe, (1, 2, 300)": {**OURS, "BLOOMDUPE_RETRY_BACKOFF": [1, 2, 300]},
}


class Server(http.server.ThreadingHTTPServer):
    """Is away for some seconds, after a number of requests."""

    request_queue_size = 1024

    def __init__(self, after: int, seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.after = after
        self.seconds = seconds
        self.asked = self.in_vain = 0
        self.back = 0.0
        self.first_after = 0.0

    def answers(self) -> bool:
        """Count a request, and say whether it is answered."""
        now = time.time()
        self.asked += 1
        if self.asked == self.after:
            self.back = now + self.seconds
        if now < self.back:
            self.in_vain += 1
            return False
        if self.back and not self.first_after:
            self.first_after = now - self.back
        return True

    def handle_error(self, *args: object) -> None:
        """Say nothing: crawlers end in the middle of a response."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if not self.server.answers():
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", "1")
        self.end_headers()
        self.wfile.write(b"x")

    def log_message(self, *args: object) -> None:
        pass


def crawl(settings: dict[str, object], requests: int, seconds: float) -> list[object]:
    """Return pages given up, items, requests in vain, seconds until it was back."""
    with tempfile.TemporaryDirectory() as folder, Server(100, seconds) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        command = [sys.executable, "-c", SPIDER, url, str(requests)]
        done = subprocess.run(
            [*command, json.dumps(settings)],
            capture_output=True,
            text=True,
            check=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        server.shutdown()
        thread.join()
        lost, items = json.loads(done.stdout)
        return [lost, items, server.in_vain, server.first_after]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--requests", type=int, default=1_000)
    options = parser.parse_args()
    print(
        f"{platform.machine()}, Python {platform.python_version()}, Scrapy"
        f" {scrapy.__version__}; {options.requests:,} requests, the server is away for"
        f" {options.seconds:g} s after the first 100\n"
    )
    print(
        "crawl                    given up  pages  in vain  first page after it is back"
    )
    for name, settings in CRAWLS.items():
        lost, items, in_vain, after = crawl(settings, options.requests, options.seconds)
        when = f"{after:.1f} s" if after else "never"
        print(f"{name:24} {lost:8,} {items:6,} {in_vain:8,}  {when}")


if __name__ == "__main__":
    main()
