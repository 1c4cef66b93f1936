"""Throughput on 200 slots with a delay each, against Scrapy's host-aware queue.

    python tests/benchmarks/frontier_delays.py [CONCURRENT_REQUESTS ...]

The slots are on one server on loopback; ``download_slot`` sets them apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from crawl import ADDON, graph

CRAWL = """
import json, sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Slots(scrapy.Spider):
    name = "slots"

    async def start(self):
        for number in range(1000):
            yield scrapy.Request(f"{sys.argv[1]}{number}",
                                 meta={"download_slot": f"host{number // 5}"})

    def parse(self, response):
        pass

process = CrawlerProcess({"LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False, "DOWNLOAD_DELAY": 1,
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    **json.loads(sys.argv[2])})
crawler = process.create_crawler(Slots)
process.crawl(crawler)
process.start()
assert crawler.stats.get_value("response_received_count") == 1000
print(crawler.stats.get_value("elapsed_time_seconds"))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "concurrency",
        nargs="*",
        type=int,
        default=[16, 100],
        metavar="CONCURRENT_REQUESTS",
    )
    concurrencies = parser.parse_args().concurrency
    print("1,000 pages on 200 slots, 5 each, a second apart on average: seconds")
    with graph(1000, 4) as start:
        base = start.removesuffix("0")
        for concurrency in concurrencies:
            for name, settings in (("Scrapy's", {}), ("bloomdupe", ADDON)):
                options = {**settings, "CONCURRENT_REQUESTS": concurrency}
                done = subprocess.run(
                    [sys.executable, "-c", CRAWL, base, json.dumps(options)],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                print(f"{concurrency:>4} at once  {name:10} {done.stdout.strip()[:6]}")


if __name__ == "__main__":
    main()
