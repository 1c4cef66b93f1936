"""Callbacks: generators, lists, coroutines, and their arguments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import scrapy
from common import SITE, Pages, Tree, item, path_of
from scrapy.http import Response
from support.stops import pause
from table import idiom


@idiom()
class Plain(Tree):
    """A generator that yields an item and follows all links."""


@dataclass
class Note:
    """An object that bloomdupe can take apart and put together."""

    text: str


@idiom()
class PassedOn(scrapy.Spider):
    """Data passed on in cb_kwargs and meta, and changed, some of it in a dataclass."""

    start_urls = [SITE + "/chain/0"]

    def parse(self, response: Response, depth: int = 0, **_: Any) -> Iterator[Any]:
        note = response.meta.get("note", Note(""))
        found = response.cb_kwargs.get("found", {"path": []})
        note.text += "+"
        found["path"].append(depth)
        yield item(response, f"{found} {note.text}")
        values = {"depth": depth + 1, "found": found}
        yield from response.follow_all(css="a", cb_kwargs=values, meta={"note": note})


# Callbacks that are no methods


@idiom(repeats=1)  # the page that has the menu's requests
class LambdaMenu(Tree):
    """Lambda callbacks of a menu, to which each page of a tree leads."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield from super().parse(response)
        for number in range(3):
            yield response.follow(
                f"/detail/{number}", lambda response, n=number: self.entry(response, n)
            )

    def entry(self, response: Response, number: int) -> Iterator[Any]:
        yield item(response, number)
        yield response.follow("/detail/9", self.below)

    def below(self, response: Response) -> Iterator[Any]:
        yield item(response, "below")


@idiom(repeats=3)  # the page, with the requests before the last that are parts of it
class NestedCallbacks(scrapy.Spider):
    """Functions in a method that are callbacks, and refer to each other."""

    start_urls = [SITE + "/chain/0"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        begin = path_of(response.url)

        async def follow(response: Response, number: int = 0) -> AsyncIterator[Any]:
            yield item(response, f"{begin} {number}")
            await pause(0.01)
            for link in response.css("a"):
                yield response.follow(link, partial(again, number=number + 1))

        async def again(response: Response, **kwargs: Any) -> AsyncIterator[Any]:
            async for output in follow(response, **kwargs):
                yield output

        async for output in follow(response):
            yield output


# Requests that cannot be stored


@idiom(repeats=None)
class MemoryTree(Tree):
    """Partial objects that have a response, in a tree with links across."""

    def parse(self, response: Response, _: Any = None) -> Iterator[Any]:
        yield item(response)
        callback = partial(self.parse, _=response)
        yield from response.follow_all(css="a", callback=callback)


@idiom(repeats=None)
class MemoryGathers(Pages):
    """Callbacks that fill one list; the last yields an item of all."""

    def parse(self, response: Response) -> Iterator[Any]:
        found: list[str] = []
        links = response.css("a")

        def gather(page: Response) -> Iterator[Any]:
            found.append(path_of(page.url))
            if len(found) == len(links):
                yield item(response, " ".join(sorted(found)))

        yield from response.follow_all(links, gather)


@idiom(repeats=None)
class MemoryFails(Pages):
    """Lambda callbacks that have a response, of pages that move or fail at first."""

    def parse(self, response: Response) -> Iterator[Any]:
        for number in range(4):
            for kind in ("flaky", "moved", "missing"):
                yield response.follow(
                    f"/{kind}/{number}",
                    lambda r: self.one(r, response),
                    errback=lambda f: self.lost(f, response),
                )

    async def one(self, response: Response, before: Response) -> AsyncIterator[Any]:
        await pause(0.01)
        yield item(response, path_of(before.url))

    def lost(self, failure: Any, before: Response) -> Iterator[Any]:
        yield item(failure.value.response, path_of(before.url))
