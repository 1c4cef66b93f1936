"""Cookies: several sessions, and a login."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from common import SITE, item
from scrapy.http import Response
from support.counters import PerRun
from support.stops import moment
from table import idiom


@idiom(moments=("logged in",))
class Cookiejars(scrapy.Spider):
    """Several sessions, each with a cookiejar of its own in meta."""

    logged_in = PerRun(0)

    async def start(self) -> AsyncIterator[Any]:
        for user in "abcd":
            yield scrapy.Request(f"{SITE}/login?name={user}", meta={"cookiejar": user})

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        self.logged_in += 1
        jar = response.meta["cookiejar"]
        yield item(response)
        if jar == "d":
            await moment(self, "logged in", lambda: self.logged_in == 4)
        for number in range(3):
            yield response.follow(
                f"/private?{jar}{number}",
                self.parse_private,
                meta={"cookiejar": jar},
                priority=-1,
            )

    def parse_private(self, response: Response) -> Iterator[Any]:
        yield item(response, response.css("p::text").get())


@idiom(moments=("logged in",))
class Login(scrapy.Spider):
    """A login first; all other pages need its cookie."""

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(SITE + "/login?name=somebody")

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(8):
            yield response.follow(f"/private?{number}", self.parse_private)

    async def parse_private(self, response: Response) -> AsyncIterator[Any]:
        yield item(response, response.css("p::text").get())
        await moment(self, "logged in")
