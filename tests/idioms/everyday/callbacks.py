"""Callbacks: generators, lists, coroutines, and their arguments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import scrapy
from common import SITE, item, path_of
from scrapy.http import Response
from support.stops import moment, pause
from table import idiom


@idiom()
class Plain(scrapy.Spider):
    """A generator that yields an item and follows all links."""

    name = "plain"
    start_urls = [SITE + "/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        yield from response.follow_all(css="a")


@idiom()
class Lists(scrapy.Spider):
    """Callbacks that return a list, a single item, or nothing."""

    name = "lists"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> list[Any]:
        return [item(response), *response.follow_all(css="a", callback=self.one)]

    def one(self, response: Response) -> Any:
        return item(response) if response.url[-1] != "7" else None


@idiom()
class AsyncGenerator(scrapy.Spider):
    """An asynchronous generator that waits between its outputs."""

    name = "async_generator"
    start_urls = [SITE + "/0"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield item(response, "before")
        await pause(0.005)
        for request in response.follow_all(css="a"):
            yield request
        await pause(0.005)
        yield item(response, "after")


@idiom()
class Coroutine(scrapy.Spider):
    """A coroutine that returns a list after a while."""

    name = "coroutine"
    start_urls = [SITE + "/0"]

    async def parse(self, response: Response) -> list[Any]:
        await pause(0.01)
        return [item(response), *response.follow_all(css="a")]


@idiom()
class CbKwargs(scrapy.Spider):
    """Data passed on in cb_kwargs and meta."""

    name = "cb_kwargs"
    start_urls = [SITE + "/chain/0"]

    def parse(self, response: Response, depth: int = 0) -> Iterator[Any]:
        yield item(response, f"{depth} {response.meta.get('path', [])}")
        path = [*response.meta.get("path", []), depth]
        yield from response.follow_all(
            css="a", cb_kwargs={"depth": depth + 1}, meta={"path": path[-3:]}
        )


@idiom(variant_of="set_of_languages")
class SetOfShops(scrapy.Spider):
    """Many requests for one page, told apart by meta and headers, in a set's order."""

    name = "set_of_shops"
    start_urls = [SITE + "/0"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        for shop in {"north", "south", "east", "west", "centre", "harbour"}:
            yield scrapy.Request(
                SITE + "/1",
                self.parse_shop,
                headers={"X-Shop": shop},
                meta={"shop": {"name": shop}},
                dont_filter=True,
            )
            await pause(0.01)
        yield item(response)

    def parse_shop(self, response: Response) -> Iterator[Any]:
        yield item(response, response.meta["shop"]["name"])


@idiom()
class SetOfLanguages(scrapy.Spider):
    """Many requests for one page, told apart also by bytes that are sent, in a set."""

    name = "set_of_languages"
    start_urls = [SITE + "/0"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        for language in {"be", "cy", "de", "et", "fi", "pt"}:
            yield scrapy.Request(
                SITE + "/1",
                self.parse_language,
                headers={"Accept-Language": language},
                dont_filter=True,
            )
            await pause(0.01)
        yield item(response)

    def parse_language(self, response: Response) -> Iterator[Any]:
        yield item(response, str(response.request.headers["Accept-Language"]))


@idiom(
    settings={
        "SPIDER_MIDDLEWARES": {"scrapy.spidermiddlewares.depth.DepthMiddleware": None}
    }
)
class OwnDepth(scrapy.Spider):
    """A depth of its own in meta, which is a text, without DepthMiddleware."""

    name = "own_depth"
    start_urls = [SITE + "/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        depth = response.meta.get("depth", "") + "x"
        yield item(response)
        yield from response.follow_all(css="a", meta={"depth": depth})


@idiom()
class ItemInParts(scrapy.Spider):
    """An item that is filled page by page, and passed on in cb_kwargs."""

    name = "item_in_parts"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        for request in response.follow_all(css="a", callback=self.second):
            request.cb_kwargs["found"] = item(response, request.url[-2:])
            yield request

    def second(self, response: Response, found: dict[str, str]) -> Iterator[Any]:
        found["part"] += f" {len(response.text)}"
        url = response.url.replace("/detail/", "/form/")
        yield response.follow(url, self.third, cb_kwargs={"found": found})

    def third(self, response: Response, found: dict[str, str]) -> Iterator[Any]:
        found["part"] += f" {len(response.text)}"
        yield found


@idiom(moments=("half",))
class SlowPage(scrapy.Spider):
    """A callback that takes long, between two items of the same page."""

    name = "slow_page"
    start_urls = [SITE + "/star"]

    async def parse(self, response: Response) -> AsyncIterator[Any]:
        yield item(response, "first")
        for request in response.follow_all(css="a", callback=self.parse_detail):
            yield request
        await moment(self, "half")
        yield item(response, "second")

    def parse_detail(self, response: Response) -> Iterator[Any]:
        yield item(response)


@idiom(raises=True)
class Raises(scrapy.Spider):
    """A callback that raises on some pages, after its first output."""

    name = "raises"
    start_urls = [SITE + "/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        yield from response.follow_all(css="a")
        if response.url.endswith("3"):
            raise ValueError("this page is not as it should be")


# Callbacks that are no methods


@idiom(repeats=1, variant_of="lambda_tree")  # their page, which waits for them
class LambdaStar(scrapy.Spider):
    """Lambda callbacks, all yielded by one page."""

    name = "lambda_star"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        for number, link in enumerate(response.css("a")):
            yield response.follow(link, lambda r, n=number: self.one(r, n))

    def one(self, response: Response, number: int) -> Iterator[Any]:
        yield item(response, number)


@idiom(variant_of="lambda_tree")
class LambdaChain(scrapy.Spider):
    """Lambda callbacks, each page yields the next one."""

    name = "lambda_chain"
    start_urls = [SITE + "/chain/0"]

    def parse(self, response: Response, number: int = 0) -> Iterator[Any]:
        yield item(response, number)
        for link in response.css("a"):
            yield response.follow(link, lambda r: self.parse(r, number + 1))


@idiom()
class LambdaTree(scrapy.Spider):
    """Partial objects as callbacks, in a tree with links across."""

    name = "lambda_tree"
    start_urls = [SITE + "/0"]

    def parse(self, response: Response, note: str = "") -> Iterator[Any]:
        yield item(response)
        callback = partial(self.parse, note=note + "x")
        yield from response.follow_all(css="a", callback=callback)


@idiom(repeats=1)  # the page that has the menu's requests
class LambdaMenu(scrapy.Spider):
    """Lambda callbacks of a menu, to which each page of a tree leads."""

    name = "lambda_menu"
    start_urls = [SITE + "/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        yield from response.follow_all(css="a")
        for number in range(3):
            link = f"/detail/{number}"
            yield response.follow(link, lambda r, n=number: self.entry(r, n))

    def entry(self, response: Response, number: int) -> Iterator[Any]:
        yield item(response, number)
        yield response.follow("/detail/9", self.below)

    def below(self, response: Response) -> Iterator[Any]:
        yield item(response, "below")


@idiom(repeats=3)  # the page, with the requests before the last that are parts of it
class NestedCallbacks(scrapy.Spider):
    """Functions in a method that are callbacks, and refer to each other."""

    name = "nested_callbacks"
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


@idiom()
class LambdaTwins(scrapy.Spider):
    """Lambda callbacks for one page with dont_filter, told apart by their values."""

    name = "lambda_twins"
    start_urls = [SITE + "/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        for number in range(6):
            yield scrapy.Request(
                f"{SITE}/detail/0",
                lambda r, n=number: item(r, n),
                dont_filter=True,
            )


# Requests that cannot be stored


@idiom(repeats=None, variant_of="memory_tree")
class MemoryStar(scrapy.Spider):
    """Lambda callbacks that have a response, all yielded by one page."""

    name = "memory_star"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        for link in response.css("a"):
            yield response.follow(link, lambda r: self.one(r, response))

    def one(self, response: Response, before: Response) -> Iterator[Any]:
        yield item(response, path_of(before.url))


@idiom(repeats=None)
class MemoryTree(scrapy.Spider):
    """Partial objects that have a response, in a tree with links across."""

    name = "memory_tree"
    start_urls = [SITE + "/0"]

    def parse(self, response: Response, _: Any = None) -> Iterator[Any]:
        yield item(response)
        callback = partial(self.parse, _=response)
        yield from response.follow_all(css="a", callback=callback)


@idiom(repeats=None)
class MemoryMenu(scrapy.Spider):
    """Lambda callbacks that have a list, to which each page of a tree leads."""

    name = "memory_menu"
    start_urls = [SITE + "/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        yield from response.follow_all(css="a")
        for number in range(3):
            link = f"/detail/{number}"
            yield response.follow(link, lambda r, n=[number]: self.entry(r, n))

    def entry(self, response: Response, numbers: list[int]) -> Iterator[Any]:
        yield item(response, numbers[0])
        yield response.follow("/detail/9", self.below)

    def below(self, response: Response) -> Iterator[Any]:
        yield item(response, "below")


@idiom(repeats=None)
class MemoryGathers(scrapy.Spider):
    """Callbacks that fill one list; the last yields an item of all."""

    name = "memory_gathers"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        found: list[str] = []
        links = response.css("a")

        def gather(page: Response) -> Iterator[Any]:
            found.append(path_of(page.url))
            if len(found) == len(links):
                yield item(response, " ".join(sorted(found)))

        yield from response.follow_all(links, gather)


@idiom(repeats=None)
class MemoryCounts(scrapy.Spider):
    """Callbacks that count in the meta of a response; the last yields an item."""

    name = "memory_counts"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        response.meta["left"] = len(response.css("a"))
        for link in response.css("a"):
            yield response.follow(link, lambda r: self.part(r, response))

    def part(self, response: Response, before: Response) -> Iterator[Any]:
        yield item(response)
        before.meta["left"] -= 1
        if not before.meta["left"]:
            yield item(before, "all")


@idiom(repeats=None, variant_of="memory_gathers")
class MemoryCountdown(scrapy.Spider):
    """Callbacks that have a response and share a number; the last yields an item."""

    name = "memory_countdown"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        left = len(response.css("a"))

        def part(page: Response) -> Iterator[Any]:
            nonlocal left
            yield item(page)
            left -= 1
            if not left:
                yield item(response, "all")

        yield from response.follow_all(css="a", callback=part)


@idiom(repeats=None)
class MemoryRows(scrapy.Spider):
    """Lambda callbacks for one page with dont_filter, each with a part of a page."""

    name = "memory_rows"
    start_urls = [SITE + "/star"]

    def parse(self, response: Response) -> Iterator[Any]:
        for row in response.css("a"):
            yield scrapy.Request(
                f"{SITE}/detail/0",
                lambda r, row=row: item(r, row.get()),
                dont_filter=True,
            )


@idiom(repeats=None, variant_of="memory_tree")
class MemoryDetails(scrapy.Spider):
    """Callbacks that have a response, in a tree; each asks for one page as well."""

    name = "memory_details"
    start_urls = [SITE + "/0"]

    def parse(self, response: Response, _: Any = None) -> Iterator[Any]:
        yield item(response)
        yield response.follow("/detail/0", self.detail, dont_filter=True)
        callback = partial(self.parse, _=response)
        yield from response.follow_all(css="a", callback=callback)

    def detail(self, response: Response) -> Iterator[Any]:
        yield item(response, "detail")


@idiom(repeats=None)
class MemoryFails(scrapy.Spider):
    """Lambda callbacks that have a response, of pages that move or fail at first."""

    name = "memory_fails"
    start_urls = [SITE + "/star"]

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


class Remark:
    """An object that msgpack cannot store, and that bloomdupe cannot take apart."""

    def __init__(self, text: str) -> None:
        self.text = text


@idiom(repeats=None, says="plain values, dataclasses and items can be stored")
class ObjectMeta(scrapy.Spider):
    """An object in meta that msgpack cannot store, in a chain."""

    name = "object_meta"
    start_urls = [SITE + "/chain/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        yield item(response)
        yield from response.follow_all(css="a", meta={"note": Remark("for nobody")})


@dataclass
class Note:
    """An object that bloomdupe can take apart and put together."""

    text: str


@idiom()
class DataclassMeta(scrapy.Spider):
    """A dataclass in meta, in a chain; its text goes on into the items."""

    name = "dataclass_meta"
    start_urls = [SITE + "/chain/0"]

    def parse(self, response: Response) -> Iterator[Any]:
        note = response.meta.get("note", Note(""))
        yield item(response, note.text)
        more = Note(f"{note.text}+")
        yield from response.follow_all(css="a", meta={"note": more})
