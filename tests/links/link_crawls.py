"""All crawls of test_link_filter.py, in one process: ``link_crawls.py BASE OUT``.

Each is done with and without the link filter. OUT gets, for each, its stats and what
it logged about duplicate links.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from poet_spider import PoetSpider
from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess
from scrapy.exceptions import IgnoreRequest
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from scrapy.utils.request import fingerprint

from bloomdupe import LinkFilter, new_links

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

FRONTIER: dict[str, Any] = {}
SCRAPYS_SCHEDULER = {"SCHEDULER": "scrapy.core.scheduler.Scheduler"}


def hrefs(response: Response) -> list[str]:
    return response.css("a::attr(href)").getall()


class Follow(Spider):
    def parse(self, response: Response) -> Iterator[Any]:
        for href in hrefs(response):
            yield response.follow(href)


class Asynchronous(Spider):
    async def parse(self, response: Response) -> AsyncIterator[Any]:
        for number, href in enumerate(hrefs(response)):
            if number % 5 == 0:
                await asyncio.sleep(0)
            yield response.follow(href)


class ByHand(Spider):
    def parse(self, response: Response) -> Iterator[Any]:
        urls = [response.urljoin(href) for href in hrefs(response)]
        for url in new_links(self, urls):
            yield Request(url)


class ByRules(CrawlSpider):
    rules = (Rule(LinkExtractor(unique=False), process_links="new_links"),)

    def new_links(self, links: Any) -> Any:
        return new_links(self, links)


class Kinds(Spider):
    """Requests that differ in more than their URL, or only seem to."""

    def parse(self, response: Response) -> Iterator[Any]:
        for href in hrefs(response):
            url = response.urljoin(href)
            number = len(href) % 3
            yield Request(url)
            yield Request(url, method="HEAD", callback=self.nothing)
            yield Request(url, method="POST", body=f"n={number}", callback=self.nothing)
            yield Request(url, body=f"n={number}", callback=self.nothing)
            yield Request(url, headers={"X-Kind": "1"}, cb_kwargs={"a": 1})
            yield Request(f"{url}#part-{number}", meta={"verbatim_url": True})
        if response.meta["depth"] == 0:
            yield Request(response.url, dont_filter=True, callback=self.nothing)

    def nothing(self, response: Response) -> None:
        pass


class Headers(Spider):
    """For a fingerprinter that looks at a header."""

    def parse(self, response: Response) -> Iterator[Any]:
        for href in hrefs(response):
            for language in ("de", "en"):
                yield response.follow(href, headers={"X-Language": language})


class Unstorable(Spider):
    def parse(self, response: Response) -> Iterator[Any]:
        for href in hrefs(response):
            yield response.follow(href, callback=partial(self.parse))


class LanguageFingerprinter:
    def fingerprint(self, request: Request) -> bytes:
        return fingerprint(request, include_headers=["X-Language"])


class LowerCaseFingerprinter:
    """Knows a fingerprint early, and says so."""

    bloomdupe_early = True

    def fingerprint(self, request: Request) -> bytes:
        path, dot, fragment = request.url.partition("#")
        return fingerprint(request.replace(url=path.lower() + dot + fragment))


class FragmentFingerprinter:
    def fingerprint(self, request: Request) -> bytes:
        return fingerprint(request, keep_fragments=True)


class Rewrite:
    """A spider middleware that sends links to the start page somewhere else."""

    def process_spider_output(
        self, response: Response, result: Any, **_: Any
    ) -> Iterator[Any]:
        for output in result:
            yield self.rewritten(output, response)

    async def process_spider_output_async(
        self, response: Response, result: Any, **_: Any
    ) -> AsyncIterator[Any]:
        async for output in result:
            yield self.rewritten(output, response)

    def rewritten(self, output: Any, response: Response) -> Any:
        if isinstance(output, Request) and output.url.endswith("/0.html"):
            name = response.url.rpartition("/")[2].partition(".")[0]
            return output.replace(url=f"{output.url}?from={name}")
        return output


class Listener:
    """An extension that ignores some requests when they are scheduled."""

    def __init__(self, crawler: Any) -> None:
        self.stats = crawler.stats
        crawler.signals.connect(self.scheduled, signals.request_scheduled)

    @classmethod
    def from_crawler(cls, crawler: Any) -> Listener:
        return cls(crawler)

    def scheduled(self, request: Request) -> None:
        self.stats.inc_value("heard")
        if request.url.endswith("2.html"):
            raise IgnoreRequest("by the listener")


class DropListener(Listener):
    def __init__(self, crawler: Any) -> None:
        self.stats = crawler.stats
        crawler.signals.connect(self.dropped, signals.request_dropped)

    def dropped(self) -> None:
        self.stats.inc_value("heard")


class ByUrlOnly(LinkFilter):
    """A control: it takes every request with a known URL for a duplicate."""

    def _drops(self, request: Request) -> bool:
        if not request.dont_filter and request.url in self._known:
            return True
        return super()._drops(request)


class Reckless(LinkFilter):
    """A control: it does not look what comes between itself and the scheduler."""

    def _obstacle(self) -> None:
        return None


class ByUrlDespitePoet(LinkFilter):
    """A control: it takes poet's fingerprints for Scrapy's own."""

    def _look_for_obstacles(self) -> None:
        super()._look_for_obstacles()
        self._by_url = True


HERE = "link_crawls"
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
        {"REQUEST_FINGERPRINTER_CLASS": f"{HERE}.LowerCaseFingerprinter"},
    ),
    "poet_on_other": (
        PoetSpider,
        {
            "ADDONS": {"bloomdupe.Addon": 1, POET: 2},
            POETS_BASE: f"{HERE}.LowerCaseFingerprinter",
        },
    ),
    "exact": (Follow, {"BLOOMDUPE_CONFIRM": 1}),
    "scrapys_scheduler": (Follow, SCRAPYS_SCHEDULER),
    "scrapys_scheduler_by_hand": (ByHand, SCRAPYS_SCHEDULER),
    "url_length": (Follow, {"URLLENGTH_LIMIT": "fits"}),
    "depth": (Follow, {"DEPTH_LIMIT": 1}),
    "depth_by_hand": (ByHand, {"DEPTH_LIMIT": 1}),
    "offsite": (Follow, {"allowed_domains": ["elsewhere.example"]}),
    "lower_order": (
        Follow,
        {"SPIDER_MIDDLEWARES": {f"{HERE}.Rewrite": 543, "bloomdupe.LinkFilter": 500}},
    ),
    "lower_order_by_hand": (
        ByHand,
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
    "scrapys_filter_by_hand": (
        ByHand,
        {"DUPEFILTER_CLASS": "scrapy.dupefilters.RFPDupeFilter"},
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
    base, out, folder = sys.argv[1:]
    process = CrawlerProcess({"LOG_LEVEL": "CRITICAL"}, install_root_handler=False)
    records = Records()
    logging.getLogger().addHandler(records)
    logging.getLogger().setLevel(logging.DEBUG)
    crawlers = {}
    for case, (spider, options) in CASES.items():
        for early in (True, False):
            name = f"{case}-{'on' if early else 'off'}"
            settings = {
                "ADDONS": {"bloomdupe.Addon": 500},
                "BLOOMDUPE_EARLY_DROP": early,
                "BLOOMDUPE_EXPECTED_URLS": 10_000,
                "COOKIES_ENABLED": False,
                "TELNETCONSOLE_ENABLED": False,
                "REMOTE_CONTROL_ENABLED": False,
                "LOGSTATS_INTERVAL": 0,
                **options,
            }
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
