"""A fast ``follow`` makes the same requests as Scrapy's."""

from __future__ import annotations

import random
from typing import Any

import pytest
from scrapy import Request, version_info
from scrapy.http import HtmlResponse, JsonResponse, TextResponse
from scrapy.link import Link
from url_lists import SEED, at_random, result

from bloomdupe.links import fast_follow
from bloomdupe.links.fast_follow import (
    follow,
    follows_the_same,
    scrapys_follow,
)
from bloomdupe.requests.objects import state_of

pytestmark = pytest.mark.skipif(
    version_info < (2, 19), reason="this Scrapy takes the usual way"
)
follow_: Any = follow


def test_this_scrapy_follows_as_ours_does() -> None:
    assert follows_the_same()


def callback() -> None: ...


def errback() -> None: ...


OPTIONS: list[dict[str, Any]] = [
    {},
    {"callback": callback, "errback": errback},
    {"callback": "parse"},
    {"method": "post"},
    {"headers": {"A": "b"}},
    {"body": "c"},
    {"cookies": {"d": "e"}},
    {"meta": {"f": 1}},
    {"meta": {"verbatim_url": True}},
    {"encoding": "utf-16"},
    {"priority": 3},
    {"priority": 1.5},
    {"dont_filter": True},
    {"cb_kwargs": {"g": 2}},
    {"cb_kwargs": 1},
    {"flags": ["h"]},
    {"meta": {"i": 3}, "cb_kwargs": {"j": 4}, "dont_filter": True, "priority": -1},
]


def page_of(url: str = "http://a.example/b/c?d", **more: Any) -> HtmlResponse:
    return HtmlResponse(url, **{"body": b"<html></html>", **more})


def same(page: TextResponse, url: Any, **more: Any) -> bool:
    """Compare the two methods; return whether the link was a fast one."""
    found = [result(each, page, url, **more) for each in (follow_, scrapys_follow)]
    mine, usual = [
        (type(each), state_of(each)) if isinstance(each, Request) else each
        for each in found
    ]
    assert mine == usual, (page.url, url, more)
    fast = fast_follow._page
    return bool(fast.response() is page and fast.parts) and isinstance(url, str)


@pytest.mark.parametrize("more", OPTIONS, ids=", ".join)
def test_every_option(more: dict[str, Any]) -> None:
    for url in ("/e", "f?g=h", "é", "http://b.example/"):
        same(page_of(), url, **more)


def test_links_put_together_at_random() -> None:
    for base, url in at_random(random.Random(SEED), 1_000):
        same(page_of(base), url)


def test_a_page_with_another_base() -> None:
    body = b'<html><head><base href="http://b.example/c/"></head></html>'
    assert same(page_of(body=body), "d")
    assert follow_(page_of(body=body), "d").url == "http://b.example/c/d"


def test_other_types_take_the_usual_way() -> None:
    class Joining(HtmlResponse):
        def urljoin(self, url: str) -> str:
            return f"http://mine.example{url}"

    class Text(str):
        __slots__ = ()

    for page in (Joining("http://a.example/", body=b""), JsonResponse("http://a.b/")):
        assert not same(page, "/c")
    for url in (Text("/c"), Link("http://b.example/"), None, b"/c", 1):
        same(page_of(), url)
    for selector in page_of(body=b'<a href=" /d ">e</a>').css("a, a::attr(href)"):
        same(page_of(), selector)
