"""From Request to verdict on a crawl-like stream of links, beside RFPDupeFilter.

    python tests/benchmarks/stream.py PATH/TO/gen_urls.py [--urls N] [--noise P]

N distinct URLs (a million), each 15 times on average, the often-linked ones far more.
The clock runs from the finished Request to the verdict, marking included; ours passes
the link filter first, as in a crawl. The generator's ids say which verdicts are wrong.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dupefilter import OURS, STOCK, make
from machine import describe, resident
from runner import Report, parser_of
from scrapy import Request

from bloomdupe.links.known_urls import KnownUrls
from bloomdupe.links.link_filter import LinkFilter

MEAN = 15
BATCH = 5_000
GOAL = 3.0


class Contestant:
    """Judges requests; counts CPU time and errors."""

    def __init__(self, judge: Callable[[list[Request]], list[bool]]) -> None:
        self._judge = judge
        self._met: set[int] = set()
        self.cpu = 0.0
        self.verdicts = self.new = self.taken_for_new = self.taken_for_seen = 0

    def run(self, ids: list[int], urls: list[str]) -> None:
        requests = [Request(url) for url in urls]
        begin = time.process_time()
        verdicts = self._judge(requests)
        self.cpu += time.process_time() - begin
        self.verdicts += len(verdicts)
        for number, seen in zip(ids, verdicts, strict=True):
            new = number not in self._met
            self._met.add(number)
            self.new += new
            self.taken_for_new += seen is False and not new
            self.taken_for_seen += seen and new


def stock() -> Callable[[list[Request]], list[bool]]:
    seen = make(STOCK, {}).request_seen
    return lambda requests: [seen(request) for request in requests]


def ours(known: KnownUrls | None) -> Callable[[list[Request]], list[bool]]:
    """Judge with the link filter before the filter, or without."""
    filter_: Any = make(OURS, {})
    seen = filter_.request_seen
    if known is None:
        return lambda requests: [seen(request) for request in requests]
    link_filter = LinkFilter(filter_._crawler, known)
    link_filter.attach(filter_._would_drop, filter_)
    drops = link_filter._drops
    return lambda requests: [drops(request) or seen(request) for request in requests]


def batches(
    tool: Path, urls: int, noise: float
) -> Iterator[tuple[list[int], list[str]]]:
    command = [sys.executable, str(tool), str(urls), "--stream", str(MEAN), "--ids"]
    command += ["--noise", str(noise)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while lines := list(islice(process.stdout, BATCH)):
            pairs = [line.rstrip("\n").split("\t") for line in lines]
            yield [int(number) for number, _ in pairs], [url for _, url in pairs]


def main() -> int:
    parser = parser_of(__doc__, urls=1_000_000, noise=0.0)
    parser.add_argument("tool", type=Path, metavar="PATH", help="gen_urls.py")
    options = parser.parse_args()
    report = Report(describe("Scrapy"))
    known = KnownUrls()
    contestants = {
        "Scrapy's RFPDupeFilter": Contestant(stock()),
        "bloomdupe, dupefilter alone": Contestant(ours(None)),
        "bloomdupe, link filter first": Contestant(ours(known)),
    }
    for ids, urls in batches(options.tool, options.urls, options.noise):
        for contestant in contestants.values():
            contestant.run(ids, urls)
    rows = []
    base = contestants["Scrapy's RFPDupeFilter"].cpu
    for name, one in contestants.items():
        rows.append(
            [
                name,
                f"{1e6 * one.cpu / one.verdicts:.2f}",
                f"{one.verdicts / one.cpu:,.0f}",
                f"{base / one.cpu:.2f}",
                f"{one.taken_for_new:,}",
                f"{one.taken_for_seen:,} of {one.new:,}",
            ]
        )
    report.table(
        f"{contestants[next(iter(contestants))].verdicts:,} links to"
        f" {options.urls:,} URLs",
        "From Request to verdict, in CPU time, taking turns. The link filter knows"
        f" {len(known):,} URLs at the end, in at most 16 MB; p = 1e-6.",
        [
            "",
            "µs",
            "verdicts a second",
            "times stock",
            "seen, taken for new",
            "new, taken for seen",
        ],
        rows,
    )
    link = contestants["bloomdupe, link filter first"]
    report.bound("stock's speed over ours", link.cpu / base, 1 / GOAL)
    report.bound("seen, taken for new", link.taken_for_new, 0, ".0f")
    print(f"\n{resident()[0] / 1e6:,.0f} MB in all")
    return report.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())
