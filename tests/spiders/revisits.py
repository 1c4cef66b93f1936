"""Spiders with pages that are revisited."""

from __future__ import annotations

from typing import Any

import scrapy
from scrapy import FormRequest, Request


class Pages(scrapy.Spider):
    name = "pages"

    def parse(self, response: Any, **more: Any) -> Any:
        self.crawler.stats.inc_value("parsed" + response.url[len(self.base) :])
        links = response.css("a::attr(href)").getall()
        if links:
            yield {"page": response.url, "links": len(links)}
        else:
            yield {"page": response.url, "text": response.text, **more}
        for url in map(response.urljoin, links):
            yield Request(url, errback=self.failed)

    def failed(self, failure: Any) -> Any:
        self.crawler.stats.inc_value("failed")

    @property
    def base(self) -> Any:
        return self.start_urls[0].rstrip("/")


class Chosen(scrapy.Spider):
    """By meta: a form that is redirected, a page that is asked for twice, and a child.

    The child has a copy of the meta, but wants to come once.
    """

    name = "chosen"

    async def start(self) -> Any:
        base = self.start_urls[0]
        again = {"bloomdupe_revisit": 0.2}
        yield FormRequest(
            base + "form",
            formdata={"a": "1"},
            meta=again,
            priority=3,
            cb_kwargs={"argument": "kept"},
        )
        for _ in range(3):
            yield Request(base + "twice", meta=again, dont_filter=True)
        yield Request(base + "bad", meta={"bloomdupe_revisit": "often"})

    def parse(self, response: Any, argument: Any = None) -> Any:
        yield {"page": response.url, "argument": argument}
        once = {**response.meta, "bloomdupe_revisit": None}
        yield response.follow("/child", meta=once)
