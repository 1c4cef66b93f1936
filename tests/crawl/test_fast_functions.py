"""Middlewares are called as Scrapy calls them."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from scrapy import Request
from scrapy.core.downloader import middleware
from scrapy.http import HtmlResponse, Response

from bloomdupe.crawl.fast_functions import FastFunctions
from bloomdupe.inside_scrapy.awaitable import (
    ensure_awaitable,
    scrapys_ensure_awaitable,
)


class Awaited(Response):
    """A response that is awaitable itself."""

    def __await__(self) -> Any:
        yield from ()
        return 1


async def coroutine() -> int:
    await asyncio.sleep(0)
    return 2


PLAIN = [None, Request("http://a.example/"), HtmlResponse("http://a.example/")]
ANSWERS: list[Callable[[], Any]] = [
    *(lambda value=value: value for value in PLAIN),
    lambda: Awaited("http://a.example/"),
    lambda: "text",
    coroutine,
    lambda: asyncio.ensure_future(coroutine()),
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_answer_is_awaited_as_scrapy_does(answer: Callable[[], Any]) -> None:
    async def outcome(function: Any) -> tuple[Any, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            awaitable = function(answer(), _warn="method")
        value = await awaitable
        # A response has no equality of its own: the type will do.
        plain = value if any(value is each for each in PLAIN) else repr(value)
        return plain, [str(each.message) for each in caught]

    # asyncio.run() would drop the loop that another test has made for its reactor.
    with closing(asyncio.new_event_loop()) as loop:
        mine, scrapys = [
            loop.run_until_complete(outcome(each))
            for each in (ensure_awaitable, scrapys_ensure_awaitable)
        ]
    assert mine == scrapys


def test_scrapy_uses_it_while_a_crawl_runs() -> None:
    module: Any = middleware
    extension = FastFunctions()
    extension.spider_opened()
    assert module.ensure_awaitable is ensure_awaitable
    extension.spider_closed()
    assert module.ensure_awaitable is scrapys_ensure_awaitable
