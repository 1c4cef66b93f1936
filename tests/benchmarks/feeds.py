"""What items that come exactly once cost: user CPU and memory against Scrapy's feeds.

    python tests/benchmarks/feeds.py [--rounds N] [--pages N]

A site on loopback, crawled with ``JOBDIR`` by the same spider, which yields 20 items a
page into a file in JSON lines and into one in CSV: once with our feed exporter, once
with Scrapy's in its place. Figures are medians over rounds in which both take turns;
then one page that brings 100,000 items.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

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
        links = (number * 2 + 1, number * 2 + 2)
        request.setHeader("Content-Type", "text/html")
        return ("<html><body>" + filler + "".join(
            f"<a href='/page/{n}'>x</a>" for n in links if n < count
        ) + "</body></html>").encode()

port = reactor.listenTCP(0, Site(Page()), interface="127.0.0.1")
print(port.getHost().port, flush=True)
reactor.run()
"""

CRAWL = """
import json, resource, sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Shop(scrapy.Spider):
    name = "shop"

    def parse(self, response):
        for number in range(int(self.items)):
            yield {"url": response.url, "number": number, "name": f"Article {number}",
                   "price": number * 1.5, "text": "some text " * 10}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href)

base, items, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
process = CrawlerProcess({"LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False, "CONCURRENT_REQUESTS_PER_DOMAIN": 16, **settings})
crawler = process.create_crawler(Shop)
process.crawl(crawler, start_urls=[base], items=items)
process.start()
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([usage.ru_utime, usage.ru_utime + usage.ru_stime, usage.ru_maxrss,
    crawler.stats.get_value("item_scraped_count"),
    crawler.stats.get_value("bloomdupe/checkpoint_seconds_max")]))
"""

THEIRS = "scrapy.extensions.feedexport.FeedExporter"


def crawl(base: str, items: int, *, ours: bool) -> list[float]:
    """Return user CPU and all CPU (s), memory (kB), items, longest checkpoint (s)."""
    # Scrapy's own class under another name is one of the user's for the add-on.
    extensions = {} if ours else {THEIRS: None, "scrapys.Scrapys": 0}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "scrapys.py").write_text(
            f"from {THEIRS.rpartition('.')[0]} import FeedExporter\n"
            "class Scrapys(FeedExporter):\n    pass\n"
        )
        settings = {
            "ADDONS": {"bloomdupe.Addon": 500},
            "JOBDIR": folder,
            "FEEDS": {
                f"{folder}/items.jsonl": {"format": "jsonlines"},
                f"{folder}/items.csv": {"format": "csv"},
            },
            "EXTENSIONS": extensions,
        }
        done = subprocess.run(
            [sys.executable, "-c", CRAWL, base, str(items), json.dumps(settings)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": folder},
        )
        for name in ("items.jsonl", "items.csv"):
            lines = Path(folder, name).read_text().count("\n")
            expected = json.loads(done.stdout)[3] + name.endswith("csv")
            if lines != expected:
                raise RuntimeError(f"{name} has {lines:,} lines, not {expected:,}")
    values: list[float] = json.loads(done.stdout)
    return values


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--pages", type=int, default=1000, metavar="N")
    options = parser.parse_args()
    rounds, pages = options.rounds, options.pages
    print(
        f"{platform.machine()}, Python {platform.python_version()}, Scrapy"
        f" {scrapy.__version__}; {pages:,} pages of 20 items, two feeds,"
        f" {rounds} rounds\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(pages)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    base = f"http://127.0.0.1:{server.stdout.readline().strip()}/page/"
    results: dict[bool, list[list[float]]] = {False: [], True: []}
    try:
        for _ in range(rounds):
            for ours, values in results.items():
                values.append(crawl(base + "0", 20, ours=ours))
        big = {
            ours: crawl(f"{base}{pages - 1}", 100_000, ours=ours) for ours in results
        }
    finally:
        server.terminate()
        server.wait()
    print("                     user s   user+sys s   of Scrapy's   MB   checkpoint ms")
    for ours, name in ((False, "Scrapy's feeds"), (True, "bloomdupe's feeds")):
        values = results[ours]
        ratios = [
            value[0] / other[0]
            for value, other in zip(values, results[False], strict=True)
        ]
        longest = max(value[4] for value in values)
        print(
            f"{name:19} {statistics.median(value[0] for value in values):7.2f}"
            f" {statistics.median(value[1] for value in values):12.2f}"
            f" {statistics.median(ratios):14.3f}"
            f" {statistics.median(value[2] for value in values) / 1024:5.0f}"
            f" {longest * 1e3:10.1f}"
        )
    print("\nOne page of 100,000 items:")
    for ours, name in ((False, "Scrapy's feeds"), (True, "bloomdupe's feeds")):
        value = big[ours]
        print(
            f"{name:19} {value[0]:7.2f} {value[1]:12.2f}"
            f" {value[0] / big[False][0]:14.3f} {value[2] / 1024:5.0f}"
            f" {value[4] * 1e3:10.1f}"
        )


if __name__ == "__main__":
    main()
