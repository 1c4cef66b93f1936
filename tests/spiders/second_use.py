"""A start page is asked for once more, to do something else with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy import FormRequest, Request, Spider
from scrapy.http import Response
from support.counters import PerRun


def name_of(response: Response) -> dict[str, str]:
    return {"page": response.url.rpartition("/")[2]}


class Login(Spider):
    """The page behind the form is the start page, with one callback for both."""

    name = "login"
    forms = PerRun(0)

    def parse(self, response: Response) -> Iterator[Any]:
        self.forms += 1
        if self.forms == 1:
            yield FormRequest(response.urljoin("/login"), formdata={"user": "me"})
            return
        yield {"page": "private"}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, self.parse_page)

    def parse_page(self, response: Response) -> Iterator[Any]:
        yield name_of(response)
        yield response.follow("/", self.parse_home)
        yield response.follow("/")

    def parse_home(self, _: Response) -> Iterator[Any]:
        yield {"page": "home"}


class Again(Spider):
    name = "again"

    def parse(self, response: Response) -> Iterator[Any]:
        yield Request(response.url, self.second)
        yield Request(response.url, self.second)
        yield Request(response.url, self.third)

    def second(self, _: Response) -> Iterator[Any]:
        yield {"page": "second"}

    third = second
