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
SPIDER: Any = Spider("of all")


class Mutable:
    """An object of the spider's."""


def closure(value: object) -> Callable[..., Any]:
    return lambda r: SPIDER.log(r, value)


def inner(value: object) -> Callable[..., Any]:
    spider = SPIDER

    def use(r: object) -> object:
        return spider.log(r, value)

    return lambda r: [use(r)]


CONSTANTS = [1, "a", None, datetime.date(2026, 1, 1), (1, ("a",)), int, closure]
MUTABLE: list[Any] = [
    [],
    PAGE.css("a"),
    (1, []),
    Mutable(),
    Mutable().__init__,  # type: ignore[misc]
    PAGE,
    PAGE.css("a")[0],
]


@pytest.mark.parametrize(
    "carried",
    [
        lambda value: {"callback": closure(value)},
        lambda value: {"callback": lambda r, value=value: SPIDER.log(r, value)},
        lambda value: {"callback": partial(SPIDER.log, value)},
        lambda value: {"callback": inner(value)},
        lambda value: {"meta": {"value": value}},
        lambda value: {"cb_kwargs": {"value": value}},
    ],
)
def test_a_request_with_constants_alone_stands_alone(
    carried: Callable[[Any], dict[str, Any]],
) -> None:
    for values, alone in ((CONSTANTS, True), (MUTABLE, False)):
        for value in values:
            for kind in (Request, FormRequest):
                request = kind(URL, **carried(value))
                assert stands_alone(request, SPIDER) == alone, value


def counted() -> Callable[..., Any]:
    number = 0

    def callback(_: object) -> int:
        def count() -> None:
            nonlocal number
            number += 1

        count()
        return number

    return callback


def unset() -> Callable[..., Any]:
    def callback(_: object) -> object:
        return later

    if SPIDER.name:
        return callback
    later = 1
    return callback


def with_attribute() -> Callable[..., Any]:
    callback: Any = closure(1)
    callback.found = []
    return callback  # type: ignore[no-any-return]


def deep() -> Callable[..., Any]:
    found: Any = SPIDER.log
    for _ in range(MOST_VALUES):
        found = partial(found, 1, x=closure(1))
    return found  # type: ignore[no-any-return]


class Own(Request):
    """Of another class than Scrapy's."""


@pytest.mark.parametrize(
    "request_",
    [
        *(Request(URL, make()) for make in (counted, unset, with_attribute, deep)),
        Own(URL, closure(1)),
    ],
)
def test_a_request_that_may_share_variables_counts_with_its_page(
    request_: Request,
) -> None:
    assert not stands_alone(request_, SPIDER)
