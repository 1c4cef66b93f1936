"""What a whole crawl costs beside stock Scrapy's: user CPU, in the same run.

    python tests/benchmarks/crawl.py [--links N] [--pages N] [--rounds N]
    python tests/benchmarks/crawl.py --from-memory [--links N] [--pages N] [--rounds N]
    python tests/benchmarks/crawl.py --site NAME --sites DIR --tool PATH/TO/site

Crawls a site on loopback whose pages have 50 links each (or ``--links``), or one that
is answered from memory (20 links), or a real one (see ../shared/sites). In each round
all variants crawl it, in turn; figures are medians over the rounds of the user CPU of
the crawling process, start included, and of its ratio to stock Scrapy without JOBDIR in
the same round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import scrapy
from machine import describe
from report import Report
from scrapy import squeues

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HERE = Path(__file__).parent
FROM_MEMORY = "from memory"
PORT = 8765


class Variant(NamedTuple):
    name: str
    spider: str = "follow"
    settings: Mapping[str, Any] = MappingProxyType({})
    job: bool = False
    goals: Mapping[str, float] = MappingProxyType({})
    """The most that it may cost, by what is crawled."""
    on_sites: bool = False
    """Whether real sites, which take long, are crawled like this."""


ADDON = {"ADDONS": {"bloomdupe.Addon": 500}}
SQLITE = {
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleLifoSQLiteQueue",
    "SCHEDULER_START_DISK_QUEUE": "scrapy.squeues.PickleFifoSQLiteQueue",
}
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
        goals={"4": 1 / 1.45, "50": 1 / 2.4, FROM_MEMORY: 1 / 2.7},
        on_sites=True,
    ),
    Variant(
        "bloomdupe, JOBDIR, new_links",
        "helped",
        ADDON,
        job=True,
        on_sites=True,
    ),
    Variant("limit: stock, a set in a middleware", settings=SET),
    Variant("limit: stock, a set in the spider", "set_in_spider"),
]


def crawl(place: str | tuple[int, int], variant: Variant) -> dict[str, Any]:
    """Crawl once, in a fresh process; return what it says.

    ``place`` is a URL, or numbers of pages and links of a site in memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings = {**variant.settings, **({"JOBDIR": folder} if variant.job else {})}
        if isinstance(place, str):
            command = [str(HERE / "crawl_child.py"), variant.spider, place]
        else:
            command = [str(HERE / "from_memory.py"), *map(str, place), "1"]
        done = subprocess.run(
            [sys.executable, *command, json.dumps(settings)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["reason"] == "finished", result
    return result


@contextmanager
def graph(pages: int, links: int) -> Iterator[str]:
    command = [sys.executable, str(HERE / "graph_server.py"), str(pages), str(links)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = server.stdout.readline().strip()
            yield f"http://127.0.0.1:{port}/articles/page/0"
        finally:
            server.terminate()


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


def measure(
    place: str | tuple[int, int], variants: list[Variant], rounds: int
) -> dict[str, list[dict[str, Any]]]:
    results: dict[str, list[dict[str, Any]]] = {v.name: [] for v in variants}
    for _ in range(rounds):
        for variant in variants:
            results[variant.name].append(crawl(place, variant))
    return results


def rows(
    report: Report,
    what: str,
    variants: list[Variant],
    results: dict[str, list[dict[str, Any]]],
) -> Iterator[list[str]]:
    for variant in variants:
        found = results[variant.name]
        ratios = [
            mine["user"] / stock["user"]
            for mine, stock in zip(found, results["stock"], strict=True)
        ]
        ratio = statistics.median(ratios)
        goal = variant.goals.get(what)
        longest = max(one["longest"] or 0 for one in found)
        yield [
            variant.name,
            f"{statistics.median(one['user'] for one in found):.2f} s",
            f"{statistics.median(one['all'] for one in found):.2f} s",
            f"{ratio:.3f}" if goal is None else report.bound(what, ratio, goal, ".3f"),
            f"{min(ratios):.3f}-{max(ratios):.3f}",
            f"{found[0]['pages']:,}",
            f"{found[0]['filtered']:,}",
            f"{longest * 1e3:.0f} ms" if longest else "-",
        ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--links", type=int, metavar="N", help="50, or 20 from memory")
    parser.add_argument("--pages", type=int, metavar="N", help="2,000, or 8,000")
    parser.add_argument(
        "--from-memory", action="store_true", help="crawl a site without a network"
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--site", metavar="NAME", help="crawl a real site")
    parser.add_argument("--sites", type=Path, default=Path("sites"), metavar="DIR")
    parser.add_argument(
        "--tool", type=Path, metavar="PATH", help="../shared/sites/site"
    )
    options = parser.parse_args()
    report = Report({**describe(), "Scrapy": scrapy.__version__})
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
            variants = [v for v in variants if v.spider == "follow" and v.on_sites]
    with site as place:
        results = measure(place, variants, options.rounds)
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
        list(rows(report, what, variants, results)),
    )
    return report.finish(None)


if __name__ == "__main__":
    sys.exit(main())
