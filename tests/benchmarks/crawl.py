"""The costs of a whole crawl beside stock Scrapy's and a rival's, in the same run.

    python tests/benchmarks/crawl.py [--links N] [--pages N] [--rounds N]
    python tests/benchmarks/crawl.py --from-memory ...
    python tests/benchmarks/crawl.py --shared ...

Crawls a site on loopback with 50 links a page (or ``--links``), or a site that
is answered from memory (20 links). In each round all variants crawl it, in turn. The
figures are medians over the rounds: of the user CPU of the crawling process, start
included, and of its ratio to stock Scrapy without JOBDIR in the same round.

With ``--shared``, 1, 2 and 4 workers share a crawl on Redis, and scrapy-redis does the
same. Each worker answers its pages from memory: a server on loopback would take its
cores. A redis-server is started for each crawl, and keeps nothing on disk. The costs of
workers count from the opening of the spider to the end of the process. A round trip is
a number of commands that Redis has read at once. scrapy-redis runs as in its own
example, with SCHEDULER_PERSIST, because the first worker to end would empty the common
queue otherwise. It ends when its queue is empty for a moment.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from runner import Report, describe

ADDON: dict[str, Any] = {"ADDONS": {"bloomdupe.Addon": 500}}
FROM_MEMORY = "from memory"
HOSTS = 200
"""Of a crawl that workers share."""
FILTERED = "dupefilter/filtered"


@dataclass(frozen=True, eq=False)
class Variant:
    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    """The setting that says where the crawl is kept."""
    workers: int = 1
    goals: Mapping[str, float] = field(default_factory=dict)
    """The most that it may cost, by what is crawled."""


SLOW_SPOTS = {
    "EXTENSIONS": {
        "bloomdupe.links.fast_follow.FastFunctions": None,
    },
    "STATS_CLASS": "crawl_child.ScrapysStats",
}
"""Slow spots of Scrapy and w3lib are left as they are."""
SCRAPY_REDIS = {
    "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
    "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
    "SCHEDULER_PERSIST": True,
}
STOCK = Variant("stock")
OURS = Variant(
    "bloomdupe, JOBDIR",
    settings=ADDON,
    place="JOBDIR",
    goals={"4": 1 / 2.1, "50": 1 / 5.5, FROM_MEMORY: 1 / 4.5},
)
VARIANTS = [
    STOCK,
    Variant("stock, JOBDIR", place="JOBDIR"),
    Variant("bloomdupe", settings=ADDON),
    OURS,
    replace(
        OURS,
        name="bloomdupe, JOBDIR, slow spots left",
        settings={**ADDON, **SLOW_SPOTS},
        goals={},
    ),
]
SHARED = [
    STOCK,
    OURS,
    *(
        Variant(f"{name}, {workers}", settings=settings, place=place, workers=workers)
        for name, settings, place in (
            ("shared", ADDON, "BLOOMDUPE_REDIS_URL"),
            ("scrapy-redis", SCRAPY_REDIS, "REDIS_URL"),
        )
        for workers in (1, 2, 4)
    ),
]


def served(stack: ExitStack, pages: int, links: int) -> dict[str, Any]:
    """Serve a site of ``crawl_child.page()``; return the arguments of its spider."""
    from crawl_child import page
    from support.site import Answer, Site, Visit

    def answer(visit: Visit) -> Answer:
        number = int(visit.path.rpartition("/")[2])
        return Answer(page(number, pages, links, "/articles/page/{}".format))

    first = stack.enter_context(Site(answer)).base + "/articles/page/0"
    return {"start_urls": [first], "allowed_domains": ["127.0.0.1"]}


def measure(site: dict[str, Any], variant: Variant) -> dict[str, float]:
    """Crawl once a site that is served, or one in memory, which has ``pages``."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings, judge = dict(variant.settings), None
        if variant.place == "JOBDIR":
            settings["JOBDIR"] = "job"
        elif variant.place:
            from support.redis_server import RedisServer

            server = stack.enter_context(RedisServer(folder / "redis"))
            judge = stack.enter_context(server.client())
            url = server.url("crawl")
            ours = variant.place != "REDIS_URL"
            settings[variant.place] = url if ours else url.partition("#")[0]
            judge.config_resetstat()
        command = [sys.executable, str(Path(__file__).with_name("crawl_child.py"))]
        command.append("InMemory" if "pages" in site else "Follow")
        command += [json.dumps(settings), json.dumps(site)]
        workers = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
            for _ in range(variant.workers)
        ]
        outputs = [worker.communicate()[0] for worker in workers]
        facts: dict[str, Any] = {} if judge is None else dict(judge.info())
    results = [json.loads(output.splitlines()[-1]) for output in outputs]
    assert all(result["finish_reason"] == "finished" for result in results), results
    found: dict[str, float] = {
        name: sum(result.get(name) or 0 for result in results)
        for name in ("user", "all", "opened", "response_received_count", FILTERED)
    }
    if "hosts" in site:
        found["user"] -= found["opened"]
    pages = found["pages"] = found.pop("response_received_count")
    spent = facts.get("used_cpu_user", 0) + facts.get("used_cpu_sys", 0)
    times = [r[when] for r in results if r.get("first") for when in ("first", "last")]
    return {
        **found,
        "longest": max(r.get("bloomdupe/checkpoint_seconds_max", 0) for r in results),
        "server": spent / pages * 1e6,
        "trips": facts.get("total_reads_processed", 0) / pages,
        "speed": pages / (max(times) - min(times)) if times else 0,
    }


def rows(
    report: Report, what: str, found: Mapping[Variant, list[dict[str, float]]]
) -> Iterator[list[str]]:
    """Yield a row for each variant, of which a crawl was measured in each round."""
    for variant, rounds in found.items():
        own = {name: median(one[name] for one in rounds) for name in rounds[0]}
        pairs = zip(rounds, found[STOCK], strict=True)
        ratios = [one["user"] / stock["user"] for one, stock in pairs]
        ratio, goal = median(ratios), variant.goals.get(what)
        yield [
            variant.name,
            f"{own['user']:,.2f} s",
            f"{own['user'] / own['pages'] * 1e6:,.0f} µs",
            f"{own['all']:,.2f} s",
            f"{ratio:.3f}" if goal is None else report.bound(what, ratio, goal, ".3f"),
            f"{min(ratios):.3f}-{max(ratios):.3f}",
            f"{own['pages']:,.0f}",
            f"{own[FILTERED]:,.0f}",
            f"{max(one['longest'] for one in rounds) * 1e3:.0f} ms",
            f"{own['server']:,.0f} µs",
            f"{own['trips']:.2f}",
            f"{own['speed']:,.0f}",
        ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--from-memory", action="store_true")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--rounds", type=int, metavar="N", default=5)
    parser.add_argument("--links", type=int, metavar="N", help="50, or 20 from memory")
    parser.add_argument("--pages", type=int, metavar="N", help="2,000, or 8,000")
    options = parser.parse_args()
    packages = ("Scrapy", "Twisted", "scrapy-redis", "redis", "hiredis")
    report = Report(describe(*packages if options.shared else packages[:1]))
    in_memory = options.from_memory or options.shared
    pages = options.pages or (8000 if in_memory else 2000)
    links = options.links or (20 if in_memory else 50)
    what, title = str(links), f"A crawl of {pages:,} pages with {links} links each"
    if in_memory:
        what = "shared" if options.shared else FROM_MEMORY
        title = f"{title}, answered from memory"
    variants = SHARED if options.shared else VARIANTS
    found: dict[Variant, list[dict[str, float]]] = {one: [] for one in variants}
    with ExitStack() as stack:
        site: dict[str, Any] = {"pages": pages, "links": links}
        if options.shared:
            site["hosts"] = HOSTS
        elif not in_memory:
            site = served(stack, pages, links)
        for _ in range(options.rounds):
            for variant, measured in found.items():
                measured.append(measure(site, variant))
    report.table(
        title,
        f"User CPU, medians of {options.rounds} rounds in which all take turns; of"
        " stock: median of the ratios, and their range.",
        [
            *("", "user CPU", "a page", "user and system", "of stock", "range"),
            *("pages", "filtered", "longest checkpoint"),
            *("redis-server a page", "round trips a page", "pages/s"),
        ],
        list(rows(report, what, found)),
    )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
