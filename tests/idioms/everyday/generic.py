"""Scrapy's generic spiders."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from common import SITE, item
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from table import idiom


@idiom()
class Rules(CrawlSpider):
    """CrawlSpider: new links are followed, and some are items as well."""

    start_urls = [SITE + "/0"]
    rules = (
        Rule(LinkExtractor(allow=r"/[1-4]$")),
        Rule(
            LinkExtractor(allow=r"/\d+$"),
            callback="parse_page",
            follow=True,
            process_links="only_new",
            process_request="mark",
        ),
    )

    def only_new(self, links: Any) -> Any:
        return links

    def mark(self, request: Any, response: Response) -> Any:
        return request.replace(cb_kwargs={"origin": response.status})

    def parse_page(self, response: Response, origin: int) -> Iterator[Any]:
        yield item(response, origin)
