"""A server that is away for some time: failed requests, and the number of attempts.

    python tests/benchmarks/away.py [--seconds 30] [--requests 1000]

The server closes each connection without an answer while it is away. The first crawl is
Scrapy's own, the second uses bloomdupe, the third also BLOOMDUPE_RETRY_BACKOFF.
"""

from __future__ import annotations

import sys
from typing import Any

from machine import describe
from runner import ADDON, Report, crawl, options
from support.site import Answer, Site, Visit

STOCK: dict[str, Any] = {"LOG_LEVEL": "CRITICAL"}
OURS = {**STOCK, **ADDON, "JOBDIR": "job"}
CRAWLS = {
    "Scrapy": STOCK,
    "bloomdupe": OURS,
    "bloomdupe, (1, 2, 300)": {**OURS, "BLOOMDUPE_RETRY_BACKOFF": [1, 2, 300]},
}
ANSWERED = 100
"""Requests before the server is away."""


class Away:
    """A server that is away for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._asked = self.in_vain = 0
        self._back = self.first_after = 0.0

    def __call__(self, visit: Visit) -> Answer | None:
        self._asked += 1
        if self._asked == ANSWERED:
            self._back = visit.time + self._seconds
        if visit.time < self._back:
            self.in_vain += 1
            return None
        if self._back and not self.first_after:
            self.first_after = visit.time - self._back
        return Answer("x")


def main() -> int:
    given = options(__doc__, seconds=30.0, requests=1_000)
    report = Report(describe("Scrapy"))
    rows = []
    for name, settings in CRAWLS.items():
        pages = Away(given.seconds)
        with Site(pages) as site:
            urls = [site.base]
            found = crawl("Many", settings, start_urls=urls, requests=given.requests)
        after = f"{pages.first_after:.1f} s" if pages.first_after else "never"
        counts = [found.get("lost", 0), found.get("item_scraped_count", 0)]
        rows.append([name, *(f"{n:,}" for n in (*counts, pages.in_vain)), after])
    report.table(
        "A server that is away",
        f"{given.requests:,} requests; it is away for {given.seconds:g} s after the"
        f" first {ANSWERED}.",
        ["crawl", "given up", "pages", "in vain", "first page after it is back"],
        rows,
    )
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
