"""A spider with page objects of scrapy-poet, which finds them by its annotations."""

from collections.abc import Iterator
from typing import Any

from scrapy import Spider
from scrapy.http import Response
from web_poet import WebPage


class Links(WebPage[Any]):
    """A page of links."""

    def urls(self) -> list[str]:
        return [self.urljoin(href) for href in self.css("a::attr(href)").getall()]


class Nothing(WebPage[Any]):
    """A page of which nothing is asked."""


class PoetSpider(Spider):
    """Yields requests with the same URL that poet's fingerprinter distinguishes."""

    name = "poet"

    def parse(self, response: Response, page: Links) -> Iterator[Any]:
        yield from response.follow_all(page.urls())
        for url in page.urls():
            yield response.follow(url)  # a duplicate by now, unlike the next request
            yield response.follow(url, callback=self.nothing)
            for number in (1, 2):
                meta = {"page_params": {"number": number}}
                yield response.follow(url, callback=self.nothing, meta=meta)

    def nothing(self, response: Response, page: Nothing) -> None:
        pass
