"""What durability costs a crawl: user CPU against stock Scrapy, in the same run.

    python tests/benchmarks/frontier_crawl.py [--rounds N] [--pages N]

A site on loopback whose pages have four links each, three of them seen before. In
each round all variants crawl it, one after the other; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import scrapy

SERVER = """
import sys
from twisted.internet import reactor
from twisted.web.resource import Resource
from twisted.web.server import Site
count = int(sys.argv[1])
filler = "<p>" + "some text " * 200 + "</p>"

class Page(Resource):
    isLeaf = True

    def render_GET(self, request):
        number = int(request.path.rpartition(b"/")[2] or 0)
        links = (number * 2 + 1, number * 2 + 2, number // 2, number // 3)
        request.setHeader("Content-Type", "text/html")
        return ("<html><body>" + filler + "".join(
            f"<a href='/articles/page/{n % count}'>x</a>" for n in links
        ) + "</body></html>").encode()

port = reactor.listenTCP(0, Site(Page()), interface="127.0.0.1")
print(port.getHost().port, flush=True)
reactor.run()
"""

CRAWL = """
import json, resource, sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Follow(scrapy.Spider):
    name = "follow"

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)

base, settings = sys.argv[1], json.loads(sys.argv[2])
process = CrawlerProcess({"LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False, "CONCURRENT_REQUESTS_PER_DOMAIN": 16, **settings})
crawler = process.create_crawler(Follow)
process.crawl(crawler, start_urls=[base])
process.start()
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([usage.ru_utime, usage.ru_utime + usage.ru_stime,
    crawler.stats.get_value("response_received_count"),
    crawler.stats.get_value("bloomdupe/checkpoint_seconds_max")]))
"""

ADDONS = {"ADDONS": {"bloomdupe.Addon": 500}}
VARIANTS: dict[str, tuple[dict[str, object], bool]] = {
    "stock": ({}, False),
    "stock, JOBDIR": ({}, True),
    "bloomdupe": (ADDONS, False),
    "bloomdupe, JOBDIR": (ADDONS, True),
}


def crawl(base: str, settings: dict[str, object], *, job: bool) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        if job:
            settings = {**settings, "JOBDIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", CRAWL, base, json.dumps(settings)],
            capture_output=True,
            text=True,
            check=True,
        )
    values: list[float] = json.loads(done.stdout)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--pages", type=int, default=2000, metavar="N")
    options = parser.parse_args()
    rounds, pages = options.rounds, options.pages
    print(
        f"{platform.machine()}, Python {platform.python_version()}, Scrapy"
        f" {scrapy.__version__}; {pages:,} pages of 4 links, {rounds} rounds\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(pages)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    base = f"http://127.0.0.1:{server.stdout.readline().strip()}/articles/page/0"
    results: dict[str, list[list[float]]] = {name: [] for name in VARIANTS}
    try:
        for _ in range(rounds):
            for name, (settings, job) in VARIANTS.items():
                results[name].append(crawl(base, settings, job=job))
                time.sleep(0.1)
    finally:
        server.terminate()
        server.wait()
    print("                      user s   user+sys s   of stock   longest checkpoint")
    stock = statistics.median(user for user, *_ in results["stock"])
    for name, values in results.items():
        user = statistics.median(value[0] for value in values)
        whole = statistics.median(value[1] for value in values)
        longest = max(value[3] or 0 for value in values)
        ratio = statistics.median(
            value[0] / other[0]
            for value, other in zip(values, results["stock"], strict=True)
        )
        print(
            f"{name:20} {user:7.2f} {whole:11.2f} {ratio:11.3f}"
            f" {longest * 1e3:12.1f} ms  ({values[0][2]:.0f} pages)"
        )
    print(f"\nOne page costs stock Scrapy {stock / pages * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
