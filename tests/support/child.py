"""The process of a :class:`support.crawl.Crawl`: runs one spider to the end.

Its argument is an order, as JSON: see ``Crawl.start()``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scrapy import crawler
from scrapy.settings import Settings
from scrapy.utils.misc import load_object


def main() -> None:
    order = json.loads(sys.argv[1])
    settings = Settings()
    settings.setdict(order["settings"], "cmdline")
    process = crawler.CrawlerProcess(settings)
    running = process.create_crawler(load_object(order["spider"]))
    process.crawl(running, start_urls=order["starts"])
    process.start()
    stats = {} if running.stats is None else running.stats.get_stats()
    Path(order["stats"]).write_text(json.dumps(stats, default=str))
    sys.exit(process.bootstrap_failed)


if __name__ == "__main__":
    main()
