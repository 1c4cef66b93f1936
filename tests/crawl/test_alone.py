"""Requests in memory that stand alone, and those that count with their page."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from scrapy import FormRequest, Request, Spider
from scrapy.http import HtmlResponse

from bloomdupe.crawl.in_flight.registry import MOST_VALUES, stands_alone

URL = "http://a.example/"
PAGE = HtmlResponse(URL, body=b"<p><a href='/1'>1</a><a href='/2'>2</a></p>")
ROWS = PAGE.css("a")


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

    def argument(self, value: object) -> Callable[..., Any]:
        return partial(self.parse, value)

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
    lambda spider, value: {"callback": spider.argument(value)},
    lambda spider, value: {"callback": spider.inner(value)},
    lambda _, value: {"meta": {"value": value}},
    lambda _, value: {"cb_kwargs": {"value": value}},
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
        ROWS,
        (1, []),
        Mutable(),
        Mutable().__init__,  # type: ignore[misc]
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
