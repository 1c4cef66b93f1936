"""The costs of a whole crawl beside stock Scrapy's: user CPU, in the same run.

    python tests/benchmarks/crawl.py [--links N] [--pages N] [--rounds N]
    python tests/benchmarks/crawl.py --from-memory [--links N] [--pages N] [--rounds N]

Crawls a site on loopback with 50 links a page (or ``--links``), or a site that
is answered from memory (20 links). In each round all variants crawl it, in turn. The
figures are medians over the rounds: of the user CPU of the crawling process, start
included, and of its ratio to stock Scrapy without JOBDIR in the same round.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from machine import describe
from runner import ADDON, Figures, Report, crawl, graph, in_turn, parser_of

FROM_MEMORY = "from memory"


class Variant(NamedTuple):
    name: str
    spider: str = "Follow"
    settings: Mapping[str, Any] = MappingProxyType({})
    job: bool = False
    goals: Mapping[str, float] = MappingProxyType({})
    """The most that it may cost, by what is crawled."""


SLOW_SPOTS = {
    "EXTENSIONS": {
        "bloomdupe.crawl.fast_functions.FastFunctions": None,
    },
    "STATS_CLASS": "crawl_child.ScrapysStats",
}
"""Slow spots of Scrapy and w3lib are left as they are."""
VARIANTS = [
    Variant("stock"),
    Variant("stock, JOBDIR", job=True),
    Variant("bloomdupe", settings=ADDON),
    Variant(
        "bloomdupe, JOBDIR",
        settings=ADDON,
        job=True,
        goals={"4": 1 / 1.75, "50": 1 / 3.6, FROM_MEMORY: 1 / 3.7},
    ),
    Variant(
        "bloomdupe, JOBDIR, slow spots left",
        settings={**ADDON, **SLOW_SPOTS},
        job=True,
    ),
    Variant("bloomdupe, JOBDIR, new_links", "Helped", ADDON, job=True),
]


def measure(place: str | tuple[int, int], variant: Variant) -> dict[str, Any]:
    """Crawl once; ``place`` is a URL, or pages and links of a site in memory."""
    settings = {**variant.settings, **({"JOBDIR": "job"} if variant.job else {})}
    if isinstance(place, str):
        return crawl(
            variant.spider, settings, start_urls=[place], allowed_domains=["127.0.0.1"]
        )
    return crawl("InMemory", settings, pages=place[0], links=place[1])


def rows(
    report: Report, what: str, variants: list[Variant], found: dict[str, Figures]
) -> Iterator[list[str]]:
    for variant in variants:
        own, stock = found[variant.name], found["stock"]
        ratios = own.ratios(stock, "user")
        ratio, goal = statistics.median(ratios), variant.goals.get(what)
        first = own.rounds[0]
        longest = max(
            one.get("bloomdupe/checkpoint_seconds_max", 0) for one in own.rounds
        )
        yield [
            variant.name,
            f"{own.median('user')} s",
            f"{own.median('all')} s",
            f"{ratio:.3f}" if goal is None else report.bound(what, ratio, goal, ".3f"),
            f"{min(ratios):.3f}-{max(ratios):.3f}",
            f"{first['response_received_count']:,}",
            f"{first.get('dupefilter/filtered', 0):,}",
            f"{longest * 1e3:.0f} ms" if longest else "-",
        ]


def main() -> int:
    parser = parser_of(__doc__, rounds=5, from_memory=False)
    parser.add_argument("--links", type=int, metavar="N", help="50, or 20 from memory")
    parser.add_argument("--pages", type=int, metavar="N", help="2,000, or 8,000")
    options = parser.parse_args()
    report = Report(describe("Scrapy"))
    variants = VARIANTS
    pages = options.pages or (8000 if options.from_memory else 2000)
    links = options.links or (20 if options.from_memory else 50)
    what, title = str(links), f"A crawl of {pages:,} pages with {links} links each"
    site: Any = graph(pages, links)
    if options.from_memory:
        what, title = FROM_MEMORY, f"{title}, answered from memory"
        site = nullcontext((pages, links))
        variants = [variant for variant in VARIANTS if variant.spider == "Follow"]
    with site as place:
        ways = {v.name: partial(measure, place, v) for v in variants}
        found = in_turn(options.rounds, ways)
    report.table(
        title,
        f"User CPU of the process, medians of {options.rounds} rounds in which all take"
        " turns; of stock: median of the ratios, and their range.",
        [
            "",
            "user CPU",
            "user and system",
            "of stock",
            "range",
            "pages",
            "filtered",
            "longest checkpoint",
        ],
        list(rows(report, what, variants, found)),
    )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
