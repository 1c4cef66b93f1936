"""The same page more than once: polling, forms, retries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from common import SITE, Pages, Tree, item
from scrapy.http import FormRequest, Response
from support.counters import PerRun
from support.stops import moment
from table import idiom


@idiom(moments=("ready",), repeats=3)
class PollAndWait(scrapy.Spider):
    """A callback polls its own page, and works on when the last answer is there."""

    start_urls = [SITE + "/poll/1"]
    ready = PerRun(False)

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        assert response.request is not None
        yield response.request.replace(callback=self.again, dont_filter=True)
        await moment(self, "ready", lambda: self.ready)
        yield item(response, "first answer")

    def again(self, response: Any) -> Iterator[Any]:
        if response.json()["ready"]:
            yield item(response, "ready")
            self.ready = True
        else:
            yield response.request.replace(dont_filter=True)


@idiom(raises=True)
class SameObjectLater(Pages):
    """A callback yields the request again that it answers, as the same object."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield response.follow("/detail/1", self.parse_again, dont_filter=True)

    def parse_again(self, response: Response) -> Iterator[Any]:
        request = response.request
        assert request is not None
        times = request.meta.get("times", 0)
        yield item(response, times)
        if times < 3:
            request.meta["times"] = times + 1
            yield request


@idiom()
class SecondUse(Pages):
    """A start page is asked for once more, for another callback."""

    def parse(self, response: Response) -> Iterator[Any]:
        for callback in (self.second, self.second, self.third):
            yield scrapy.Request(response.url, callback)

    def second(self, response: Response) -> Iterator[Any]:
        yield item(response, "second")

    third = second


@idiom()
class PrivateStart(Tree):
    """The page behind a form is the start page, with one callback for both."""

    def parse(self, response: Response) -> Iterator[Any]:
        if "redirect_urls" in response.meta:
            yield item(response, "private")
            yield from response.follow_all(css="a", callback=self.inner)
        else:
            yield FormRequest(SITE + "/back/0", formdata={"user": "me"})

    def inner(self, response: Response) -> Iterator[Any]:
        yield item(response)
        yield response.follow("/0", self.home)
        yield response.follow("/0")

    def home(self, response: Response) -> Iterator[Any]:
        yield item(response, "home")
