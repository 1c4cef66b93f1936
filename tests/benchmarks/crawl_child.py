"""One crawl of crawl.py: ``crawl_child.py SPIDER URL SETTINGS`` prints what it cost."""

from __future__ import annotations

import json
import resource
import sys
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response


def hrefs(response: Response) -> list[str]:
    """Return the links of a page, but for ``mailto:`` and the like."""
    if not isinstance(response, HtmlResponse):
        return []
    return [
        href
        for href in response.css("a::attr(href)").getall()
        if href.startswith("http") or ":" not in href.partition("/")[0]
    ]


class Follow(Spider):
    """As in Scrapy's tutorial."""

    name = "follow"

    def parse(self, response: Response) -> Iterator[Request]:
        for href in hrefs(response):
            yield response.follow(href)


class Helped(Spider):
    """With the link helper."""

    name = "helped"

    def parse(self, response: Response) -> Iterator[Request]:
        from bloomdupe import new_links  # not part of the others' time

        for url in new_links(self, map(response.urljoin, hrefs(response))):
            yield Request(url)


class SetInSpider(Spider):
    """The limit: a plain set of URLs in the spider."""

    name = "set_in_spider"

    def parse(self, response: Response) -> Iterator[Request]:
        seen = self.__dict__.setdefault("seen", set())
        for url in map(response.urljoin, hrefs(response)):
            if url not in seen:
                seen.add(url)
                yield Request(url)


class SetInMiddleware:
    """The other limit: a plain set of URLs next to the spider."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    async def process_spider_output(
        self,
        response: Response,  # noqa: ARG002
        result: AsyncIterator[Any],
    ) -> AsyncIterator[Any]:
        async for output in result:
            if isinstance(output, Request):
                if output.url in self.seen:
                    continue
                self.seen.add(output.url)
            yield output


SPIDERS = {spider.name: spider for spider in (Follow, Helped, SetInSpider)}

if __name__ == "__main__":
    name, url, settings = sys.argv[1:]
    process = CrawlerProcess(
        {
            "LOG_LEVEL": "ERROR",
            "TELNETCONSOLE_ENABLED": False,
            "REMOTE_CONTROL_ENABLED": False,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
            **json.loads(settings),
        }
    )
    crawler = process.create_crawler(SPIDERS[name])
    process.crawl(crawler, start_urls=[url], allowed_domains=["127.0.0.1"])
    process.start()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    stats = crawler.stats
    print(
        json.dumps(
            {
                "user": usage.ru_utime,
                "all": usage.ru_utime + usage.ru_stime,
                "pages": stats.get_value("response_received_count"),
                "filtered": stats.get_value("dupefilter/filtered", 0),
                "longest": stats.get_value("bloomdupe/checkpoint_seconds_max"),
                "reason": stats.get_value("finish_reason"),
            }
        )
    )
