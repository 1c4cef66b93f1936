"""The crawls of a case of test_link_filter.py, in one process.

Its arguments are the URL of the site, the file of the results, a folder, and the case.
The crawl is done with the link filter and without it. For each of both crawls, the file
gets its stats and its log lines about duplicate links.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from scrapy import Spider
from scrapy.crawler import CrawlerProcess
from spiders.links import (
    Asynchronous,
    ByHand,
    ByRules,
    Follow,
    Headers,
    Kinds,
    Unstorable,
)
from spiders.poet import PoetSpider

SCRAPYS_SCHEDULER = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}
HERE = "spiders.links"
LINK_FILTERS = (
    "bloomdupe.LinkFilter",
    f"{HERE}.ByUrlOnly",
    f"{HERE}.ByUrlDespitePoet",
    f"{HERE}.Reckless",
)
# One page at a time, and of it one link, on each version of Scrapy.
IN_TURN = {
    "CONCURRENT_ITEMS": 1,
    "CONCURRENT_REQUESTS": 1,
    "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 0,
}
POET = "scrapy_poet.Addon"
POETS_BASE = "SCRAPY_POET_REQUEST_FINGERPRINTER_BASE_CLASS"
CASES: dict[str, tuple[type[Spider], dict[str, Any]]] = {
    "follow": (Follow, {}),
    "follow_stored": (Follow, {"JOBDIR": True}),
    "asynchronous": (Asynchronous, {}),
    "by_hand": (ByHand, {}),
    "by_rules": (ByRules, {}),
    "kinds": (Kinds, {}),
    "unstorable": (Unstorable, {"JOBDIR": True}),
    "poet": (PoetSpider, {"ADDONS": {"bloomdupe.Addon": 1, POET: 2}}),
    "poet_first": (PoetSpider, {"ADDONS": {"bloomdupe.Addon": 2, POET: 1}}),
    "says_so": (
        Kinds,
        {
            "REQUEST_FINGERPRINTER_CLASS": f"{HERE}.LowerCaseFingerprinter",
            **IN_TURN,
        },
    ),
    "poet_on_other": (
        PoetSpider,
        {
            "ADDONS": {"bloomdupe.Addon": 1, POET: 2},
            POETS_BASE: f"{HERE}.LowerCaseFingerprinter",
        },
    ),
    "exact": (Follow, {"BLOOMDUPE_EXACT": True}),
    "scrapys_scheduler": (Follow, SCRAPYS_SCHEDULER),
    "url_length": (Follow, {"URLLENGTH_LIMIT": "fits"}),
    "depth": (Follow, {"DEPTH_LIMIT": 1}),
    "offsite": (Follow, {"allowed_domains": ["elsewhere.example"]}),
    "lower_order": (
        Follow,
        {"SPIDER_MIDDLEWARES": {f"{HERE}.Rewrite": 543, "bloomdupe.LinkFilter": 500}},
    ),
    # Where it must step aside:
    "headers": (
        Headers,
        {"REQUEST_FINGERPRINTER_CLASS": f"{HERE}.LanguageFingerprinter"},
    ),
    "fragments": (
        Follow,
        {"REQUEST_FINGERPRINTER_CLASS": f"{HERE}.FragmentFingerprinter"},
    ),
    "poet_on_unknown": (
        PoetSpider,
        {
            "ADDONS": {"bloomdupe.Addon": 1, POET: 2},
            POETS_BASE: f"{HERE}.LanguageFingerprinter",
        },
    ),
    "rewrite": (Follow, {"SPIDER_MIDDLEWARES": {f"{HERE}.Rewrite": 543}}),
    "listener": (Follow, {"EXTENSIONS": {f"{HERE}.Listener": 0}}),
    "drop_listener": (Follow, {"EXTENSIONS": {f"{HERE}.DropListener": 0}}),
    "debug": (Follow, {"DUPEFILTER_DEBUG": True}),
    "depths": (Follow, {"DEPTH_STATS_VERBOSE": True}),
    "scrapys_filter": (
        Follow,
        {"DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter", **SCRAPYS_SCHEDULER},
    ),
    # Controls:
    "control_url_only": (
        Kinds,
        {
            "SPIDER_MIDDLEWARES": {
                f"{HERE}.ByUrlOnly": 1e4,
                "bloomdupe.LinkFilter": None,
            }
        },
    ),
    "control_poet": (
        PoetSpider,
        {
            "ADDONS": {"bloomdupe.Addon": 1, POET: 2},
            "SPIDER_MIDDLEWARES": {
                f"{HERE}.ByUrlDespitePoet": 1e4,
                "bloomdupe.LinkFilter": None,
            },
        },
    ),
    "control_rewrite": (
        Follow,
        {
            "SPIDER_MIDDLEWARES": {
                f"{HERE}.Rewrite": 543,
                f"{HERE}.Reckless": 1e4,
                "bloomdupe.LinkFilter": None,
            }
        },
    ),
}


class Records(logging.Handler):
    """Keeps what is logged about duplicates, by spider."""

    def __init__(self) -> None:
        super().__init__()
        self.by_spider: dict[str, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        spider = getattr(record, "spider", None)
        if spider is not None and "uplicate" in text:
            self.by_spider.setdefault(spider.name, []).append(text)


def main() -> None:
    base, out, folder, case = sys.argv[1:]
    spider, options = CASES[case]
    process = CrawlerProcess({"LOG_LEVEL": "CRITICAL"}, install_root_handler=False)
    records = Records()
    logging.getLogger().addHandler(records)
    logging.getLogger().setLevel(logging.DEBUG)
    crawlers = {}
    for early in (True, False):
        name = f"{case}-{'on' if early else 'off'}"
        settings = {
            "ADDONS": {"bloomdupe.Addon": 500},
            "BLOOMDUPE_EXPECTED_URLS": 10_000,
            "COOKIES_ENABLED": False,
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            "LOGSTATS_INTERVAL": 0,
            **options,
        }
        if not early:
            middlewares = settings.get("SPIDER_MIDDLEWARES", {})
            off = dict.fromkeys(LINK_FILTERS)
            settings["SPIDER_MIDDLEWARES"] = {**middlewares, **off}
        own = {"name": name, "allowed_domains": settings.pop("allowed_domains", [])}
        start = f"{base}/{name}/0.html"
        if "JOBDIR" in settings:
            settings["JOBDIR"] = f"{folder}/{name}"
        if "URLLENGTH_LIMIT" in settings:
            settings["URLLENGTH_LIMIT"] = len(f"{base}/{name}/000.html")
        own["custom_settings"] = settings
        own["start_urls"] = [start]
        crawlers[name] = process.create_crawler(type(name, (spider,), own))
        process.crawl(crawlers[name])
    process.start()
    result = {
        name: {
            "stats": dict(crawler.stats.get_stats()),
            "log": records.by_spider.get(name, []),
        }
        for name, crawler in crawlers.items()
    }
    with open(out, "w") as file:  # noqa: PTH123
        json.dump(result, file, default=str)


if __name__ == "__main__":
    main()
