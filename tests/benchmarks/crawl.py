"""The costs of a whole crawl beside stock Scrapy's: user CPU, in the same run.

    python tests/benchmarks/crawl.py [--links N] [--pages N] [--rounds N]
    python tests/benchmarks/crawl.py --from-memory [--links N] [--pages N] [--rounds N]
    python tests/benchmarks/crawl.py --site NAME --sites DIR --tool PATH/TO/site

Crawls a site on loopback with 50 links a page (or ``--links``), or a site that
is answered from memory (20 links), or a real one (see ../shared/sites). In each round
all variants crawl it, in turn; figures are medians over the rounds of the user CPU of
the crawling process, start included, and of its ratio to stock Scrapy without JOBDIR in
the same round.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from machine import describe
from runner import ADDON, Figures, Report, crawl, graph, in_turn, parser_of
from scrapy import squeues

FROM_MEMORY = "from memory"
PORT = 8765


class Variant(NamedTuple):
    name: str
    spider: str = "Follow"
    settings: Mapping[str, Any] = MappingProxyType({})
    job: bool = False
    goals: Mapping[str, float] = MappingProxyType({})
    """The most that it may cost, by what is crawled."""
    on_sites: bool = False
    """Whether real sites, which take long, are crawled like this."""


SQLITE = {
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleLifoSQLiteQueue",
    "SCHEDULER_START_DISK_QUEUE": "scrapy.squeues.PickleFifoSQLiteQueue",
}
SLOW_SPOTS = {
    "EXTENSIONS": {
        "bloomdupe.crawl.fast_functions.FastFunctions": None,
    },
    "STATS_CLASS": "crawl_child.ScrapysStats",
}
"""Slow spots of Scrapy and w3lib are left as they are."""
SET = {"SPIDER_MIDDLEWARES": {"crawl_child.SetInMiddleware": 10_000}}
VARIANTS = [
    Variant("stock", on_sites=True),
    Variant("stock, JOBDIR", job=True, on_sites=True),
    Variant("stock, JOBDIR, SQLite queues", settings=SQLITE, job=True),
    Variant("bloomdupe", settings=ADDON),
    Variant(
        "bloomdupe, JOBDIR",
        settings=ADDON,
        job=True,
        goals={"4": 1 / 1.75, "50": 1 / 3.6, FROM_MEMORY: 1 / 3.7},
        on_sites=True,
    ),
    Variant(
        "bloomdupe, JOBDIR, slow spots left",
        settings={**ADDON, **SLOW_SPOTS},
        job=True,
        on_sites=True,
    ),
    Variant(
        "bloomdupe, JOBDIR, new_links",
        "Helped",
        ADDON,
        job=True,
        on_sites=True,
    ),
    Variant("limit: stock, a set in a middleware", settings=SET),
    Variant("limit: stock, a set in the spider", "SetInSpider"),
]


def measure(place: str | tuple[int, int], variant: Variant) -> dict[str, Any]:
    """Crawl once; ``place`` is a URL, or pages and links of a site in memory."""
    settings = {**variant.settings, **({"JOBDIR": "job"} if variant.job else {})}
    if isinstance(place, str):
        return crawl(
            variant.spider, settings, start_urls=[place], allowed_domains=["127.0.0.1"]
        )
    return crawl("InMemory", settings, pages=place[0], links=place[1])


@contextmanager
def real(tool: Path, name: str, folder: Path) -> Iterator[str]:
    """Serve a real site with nginx until it is not needed any more."""
    subprocess.run([tool, "get", name, folder], check=True, stdout=subprocess.DEVNULL)
    command = [str(tool), "serve", name, str(folder), str(PORT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().split()[0]
            for _ in range(100):
                try:
                    urllib.request.urlopen(url).close()  # noqa: S310 - our own
                    break
                except urllib.error.URLError:
                    time.sleep(0.1)
            yield url
        finally:
            server.terminate()


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
    parser.add_argument("--site", metavar="NAME", help="crawl a real site")
    parser.add_argument("--sites", type=Path, default=Path("sites"), metavar="DIR")
    parser.add_argument(
        "--tool", type=Path, metavar="PATH", help="../shared/sites/site"
    )
    options = parser.parse_args()
    report = Report(describe("Scrapy"))
    variants = [
        variant
        for variant in VARIANTS
        if hasattr(squeues, "PickleLifoSQLiteQueue") or variant.settings is not SQLITE
    ]
    if options.site:
        variants = [variant for variant in variants if variant.on_sites]
        what, title = options.site, f"A crawl of {options.site}"
        site: Any = real(options.tool.resolve(), options.site, options.sites.resolve())
    else:
        pages = options.pages or (8000 if options.from_memory else 2000)
        links = options.links or (20 if options.from_memory else 50)
        what, title = str(links), f"A crawl of {pages:,} pages with {links} links each"
        site = graph(pages, links)
        if options.from_memory:
            what, title = FROM_MEMORY, f"{title}, answered from memory"
            site = nullcontext((pages, links))
            variants = [v for v in variants if v.spider == "Follow" and v.on_sites]
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
    return report.finish(options.json)


if __name__ == "__main__":
    sys.exit(main())
