"""Throughput on 200 slots with a delay each, against Scrapy's host-aware queue.

    python tests/benchmarks/frontier_delays.py

The slots are on one server on loopback; ``download_slot`` sets them apart.
"""

from __future__ import annotations

import sys

from machine import describe
from runner import ADDON, Report, crawl, graph, options


def main() -> int:
    given = options(__doc__)
    report = Report(describe("Scrapy"))
    rows = []
    with graph(1000, 4) as start:
        for requests in (16, 100):
            for name, settings in (("Scrapy's", {}), ("bloomdupe", ADDON)):
                at_once = {**settings, "CONCURRENT_REQUESTS": requests}
                found = crawl("Slots", at_once, start_urls=[start])
                assert found["response_received_count"] == 1000
                seconds = found["elapsed_time_seconds"]
                rows.append([str(requests), name, f"{seconds:.2f}"])
    report.table(
        "1,000 pages on 200 slots",
        "5 each, a second apart on average.",
        ["requests at once", "", "seconds"],
        rows,
    )
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
