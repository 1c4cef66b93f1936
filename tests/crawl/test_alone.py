"""Requests in memory that stand alone, and those that count with their page."""

from __future__ import annotations

import datetime
import io
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.http import HtmlResponse
from spiders.functions import (
    AgainBeside,
    ByHand,
    Lambdas,
    Retries,
)
from support.crawl import Crawl
from support.engines import on_both_engines
from support.site import Pages, graph

from bloomdupe.crawl.leases.alone import MOST_VALUES, stands_alone

SIZE = 60
EVERY = 35
"""Of so many answers, some are leaves in any order: 30 pages have links."""
MOST_RUNS = 3
URL = "http://a.example/"
PAGE = HtmlResponse(URL, body=b"<p><a href='/1'>1</a><a href='/2'>2</a></p>")
ROWS = PAGE.css("a")


@pytest.fixture
def pages() -> Pages:
    others = ("", "closure", "method", "page", "child", "memory")
    return {**graph(SIZE, across=0), **{f"/{path}": "a page" for path in others}}


def module_function(response: object, *more: object) -> None: ...


def make(value: object) -> Callable[..., Any]:
    return lambda _: value


class Methods(Spider):
    """Methods that return callbacks, all of which have the ``value``."""

    name = "methods"

    def parse(self, *_: object, **__: object) -> object: ...

    def closure(self, value: object) -> Callable[..., Any]:
        return lambda r: self.parse(r, value)

    def default(self, value: object) -> Callable[..., Any]:
        return lambda r, value=value: self.parse(r, value)

    def keyword(self, value: object) -> Callable[..., Any]:
        def callback(r: object, *, value: object = value) -> None:
            self.parse(r, value)

        return callback

    def argument(self, value: object) -> Callable[..., Any]:
        return partial(self.parse, value)

    def named(self, value: object) -> Callable[..., Any]:
        return partial(self.parse, value=value)

    def inner(self, value: object) -> Callable[..., Any]:
        def use(r: object) -> object:
            return self.parse(r, value)

        return lambda r: [use(r)]

    def counted(self) -> Callable[..., Any]:
        number = 0

        def callback(_: object) -> int:
            nonlocal number
            number += 1
            return number

        return callback

    def unset(self) -> Callable[..., Any]:
        def callback(_: object) -> object:
            return later

        if self.name:
            return callback
        later = 1
        return callback


@pytest.fixture(scope="module")
def spider() -> Methods:
    return Methods()


WAYS: list[Callable[[Methods, Any], dict[str, Any]]] = [
    lambda spider, value: {"callback": spider.closure(value)},
    lambda spider, value: {"callback": spider.default(value)},
    lambda spider, value: {"callback": spider.keyword(value)},
    lambda spider, value: {"callback": spider.argument(value)},
    lambda spider, value: {"callback": spider.named(value)},
    lambda spider, value: {"callback": spider.inner(value)},
    lambda spider, value: {"errback": spider.closure(value)},
    lambda _, value: {"meta": {"value": value}},
    lambda _, value: {"cb_kwargs": {"value": value}},
    lambda spider, value: (
        {"callback": spider.closure((value,))}
        if isinstance(value, int)
        else {"callback": partial(spider.argument(value))}
    ),
]
"""How a request may come by a value."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "value",
    [1, "a", None, datetime.date(2026, 1, 1), (1, ("a",)), int, make],
)
def test_a_request_with_constants_stands_alone(
    spider: Methods, way: Callable[[Methods, Any], dict[str, Any]], value: object
) -> None:
    assert stands_alone(Request(URL, **way(spider, value)), spider)


def test_a_request_of_another_class_counts_with_its_page(spider: Methods) -> None:
    class Own(Request):
        pass

    assert stands_alone(FormRequest(URL, spider.closure(1)), spider)
    assert not stands_alone(Own(URL, spider.closure(1)), spider)


class Mutable:
    """An object of the spider's."""


def with_attribute(spider: Methods) -> Callable[..., Any]:
    callback = spider.closure(1)
    callback.found = []  # type: ignore[attr-defined]
    return callback


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        set(),
        ROWS,
        (1, []),
        Mutable(),
        Mutable().__init__,  # type: ignore[misc]
        io.BytesIO(),
        iter([1]),
        PAGE,
        ROWS[0],
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_request_with_a_mutable_value_counts_with_its_page(
    spider: Methods, way: Callable[[Methods, Any], dict[str, Any]], value: object
) -> None:
    assert not stands_alone(Request(URL, **way(spider, value)), spider)


def test_functions_that_share_variables_count_with_their_page(
    spider: Methods,
) -> None:
    functions = [spider.counted(), spider.unset(), with_attribute(spider)]
    deep: Any = spider.parse
    for _ in range(MOST_VALUES):
        deep = partial(deep, 1)
        deep.keywords["x"] = spider.closure(1)
    for function in (*functions, deep):
        assert not stands_alone(Request(URL, function), spider)


@pytest.mark.parametrize("more", [0, 1])
def test_a_request_with_very_many_values_counts_with_its_page(
    spider: Methods, more: int
) -> None:
    count = MOST_VALUES - 4 + more  # besides callback, errback, value and spider
    meta: dict[str, Any] = dict.fromkeys(map(str, range(count)))
    request = Request(URL, spider.closure(1), meta=meta)
    assert stands_alone(request, spider) != bool(more)


@on_both_engines
@pytest.mark.usefixtures("feed")
def test_a_tree_ends_although_it_is_killed_again_and_again(crawl: Crawl) -> None:
    """Pages that are done count, and do not come again."""
    crawl.starts = ("/0",)
    done: set[int] = set()
    for _ in range(MOST_RUNS - 1):
        done = killed_when_all_counts(crawl, done)
    run = crawl.run(Lambdas)
    assert run.finish_reason == "finished"
    assert not {int(path[1:]) for path in run.requested} & done
    found = Counter(item["page"] for item in crawl.items())
    assert found == Counter(range(SIZE))


def killed_when_all_counts(crawl: Crawl, before: set[int]) -> set[int]:
    """Kill a run after so many answers, once all that is done is in the output.

    It may have finished. Return the pages that are done.
    """
    crawl.site.hold_after(EVERY)
    process = crawl.start(Lambdas)

    def done() -> set[int]:
        scraped = {*map(int, re.findall(r"Scraped from <200 .*/(\d+)>", process.log))}
        found = {*before}
        for page in reversed(range(SIZE)):
            below = {2 * page + 1, 2 * page + 2} & {*range(SIZE)}
            if page in scraped and below <= found:
                found.add(page)
        return found if len(scraped) == EVERY else set()

    def all_counts() -> bool:
        known = done()
        return known > before and known <= {item["page"] for item in crawl.items()}

    process.until(lambda: not process.alive or all_counts())
    process.kill()
    crawl.site.release()
    return done() or before


@on_both_engines
@pytest.mark.usefixtures("feed")
def test_a_retry_of_a_request_in_memory_yields_further_children(crawl: Crawl) -> None:
    crawl.finish(Retries)
    assert [item["page"] for item in crawl.items()] == ["child", "child"]


@on_both_engines
@pytest.mark.usefixtures("feed")
def test_a_page_that_is_replaced_waits_for_its_requests_in_memory(crawl: Crawl) -> None:
    crawl.finish(AgainBeside)
    assert {item["page"] for item in crawl.items()} == {"again", "memory"}


@on_both_engines
@pytest.mark.usefixtures("feed")
def test_requests_in_memory_need_no_page_that_has_yielded_them(crawl: Crawl) -> None:
    crawl.finish(ByHand)
    assert sorted(item["page"] for item in crawl.items()) == ["child", "memory"]
