"""Fast ``urljoin`` and ``safe_url_string`` return the same as the originals."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial, partialmethod, wraps
from importlib import import_module
from itertools import chain
from types import SimpleNamespace
from typing import Any
from urllib import parse

import pytest
from scrapy import Request, Spider, version_info
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.core.spidermw import SpiderMiddlewareManager
from scrapy.downloadermiddlewares.useragent import UserAgentMiddleware
from scrapy.http import HtmlResponse, TextResponse
from scrapy.utils.decorators import inthread
from support.jobs import idle_crawler
from url_lists import BASES, SEED, at_random, real, result, specified
from w3lib import url as w3lib_url

from bloomdupe.inside_scrapy.faster import call_directly
from bloomdupe.links import fast_follow, safe_urls
from bloomdupe.links.fast_follow import FastFunctions, faster, follow
from bloomdupe.links.safe_urls import safe_url_string, urljoin

request_module: Any = import_module("scrapy.http.request")
response_module: Any = import_module("scrapy.http.response.text")
extractor_module: Any = import_module("scrapy.linkextractors.lxmlhtml")
ENCODINGS = ["utf8", "utf-8", "latin-1", "shift_jis", "hz", "utf-7", "utf-16", "cp037"]
ENCODINGS += ["punycode", "idna", "base64", "no such", ""]


def compare(pairs: Iterable[tuple[str, str]]) -> tuple[int, int, int]:
    """Return how many links were compared, were safe, and were joined fast."""
    compared = safe = joined = 0
    for base, url in pairs:
        join = result(parse.urljoin, base, url)
        assert result(urljoin, base, url) == join, (base, url)
        for each in (url, join):
            escaped = result(w3lib_url.safe_url_string, each)
            assert result(safe_url_string, each) == escaped, each
        compared += 1
        safe += safe_urls._is_safe(url) is not None
        parts = safe_urls.parts_of(base)
        fast = None if parts is None else safe_urls.joined(parts, url)
        if fast is not None:
            assert safe_urls._is_safe(fast), (base, url)
            joined += 1
    return compared, safe, joined


def test_links_put_together_at_random() -> None:
    compared, safe, joined = compare(at_random(random.Random(SEED), 10_000))
    assert compared == 10_000
    assert safe > 300
    assert joined > 400


@pytest.mark.parametrize("where", ["%s", "/a%sb", "a%sb", "?a=b%sc", "#%s", "/a?b#%sc"])
def test_every_character(where: str) -> None:
    urls = [where % chr(code) for code in range(256)]
    compare((base, url) for base in BASES[:2] for url in urls)
    compare(("http://a.example", f"http://a.example{url}") for url in urls)


def test_odd_links_and_those_of_the_specifications() -> None:
    urls = [*real(every=10), *specified()]
    compared, safe, _ = compare(("http://a.example/b/c", url) for url in urls)
    assert 0 < safe < compared


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding(encoding: str) -> None:
    original: Any = w3lib_url.safe_url_string
    for url in (*safe_urls.PROBES, "http://a.example/~b?c=~+d", "http://a.example/é"):
        for more in ((encoding,), (encoding, encoding), (encoding, "utf8", False)):
            expected = result(original, url, *more)
            assert result(safe_url_string, url, *more) == expected


def test_other_types_take_the_usual_way() -> None:
    class Text(str):
        __slots__ = ()

    for url in (b"http://a.example/", Text("http://a.example/")):
        assert type(safe_url_string(url)) is str
    join: Any = urljoin
    assert join(b"http://a.example/b", b"c") == b"http://a.example/c"
    assert join("http://a.example/b", "c#d", False) == "http://a.example/c#d"
    with pytest.raises(TypeError, match="Cannot mix str"):
        join(b"http://a.example/b", "c")


# In Scrapy


@pytest.mark.skipif(version_info < (2, 19), reason="this Scrapy takes the usual way")
def test_scrapy_uses_them() -> None:
    FastFunctions()
    assert request_module.safe_url_string is safe_url_string
    assert response_module.urljoin is urljoin
    assert extractor_module.safe_url_string is safe_url_string
    assert extractor_module.urljoin is urljoin
    assert TextResponse.follow is follow
    page = HtmlResponse("http://a.example/b/c", body=b"")
    assert [each.url for each in page.follow_all(["d", "é"])] == [
        "http://a.example/b/d",
        "http://a.example/b/%C3%A9",
    ]
    assert Request("http://a.example/é").url == "http://a.example/%C3%A9"


@pytest.mark.parametrize(
    ("place", "name", "wrapped"),
    [
        (request_module, "safe_url_string", partial),
        (TextResponse, "follow", partialmethod),
    ],
)
def test_a_function_of_other_code_stays(
    place: Any, name: str, wrapped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = wrapped(getattr(place, name))
    monkeypatch.setattr(place, name, mine)
    FastFunctions()
    assert vars(place)[name] is mine


class Mine(UserAgentMiddleware):
    """A middleware with wrappers that do more."""

    process_request: Any = wraps(UserAgentMiddleware.process_request)(
        lambda *_, **__: None
    )
    process_response: Any = inthread(lambda *_, **named: named["response"])


def test_middlewares_are_called_without_scrapys_wrappers() -> None:
    crawler: Any = idle_crawler(DOWNLOADER_MIDDLEWARES={Mine: 1}, BOT_NAME="mine")
    crawler.spider = Spider("any")
    managers: list[Any] = [
        manager.from_crawler(crawler)
        for manager in (DownloaderMiddlewareManager, SpiderMiddlewareManager)
    ]
    crawler.engine = SimpleNamespace(
        downloader=SimpleNamespace(middleware=managers[0]),
        scraper=SimpleNamespace(spidermw=managers[1]),
    )
    call_directly(crawler)
    methods = chain.from_iterable(
        some for manager in managers for some in manager.methods.values()
    )
    wrapped: list[Any] = [one for one in methods if hasattr(one, "__wrapped__")]
    assert {type(one.__self__) for one in wrapped} == {Mine}
    assert len(wrapped) == 2


request_init = Request.__init__


def counting(self: Request, *args: Any, **more: Any) -> None:
    request_init(self, *args, **more)


def without_name(*_: object, **__: object) -> Request:
    raise AttributeError("_cb_kwargs")


@pytest.mark.parametrize(
    ("place", "patched", "replacement", "name"),
    [
        (w3lib_url, "safe_url_string", lambda *_: "", "safe_url_string"),
        (parse, "urljoin", lambda *_: "", "urljoin"),
        (Request, "__init__", counting, "follow"),
        (Request, "__init__", print, "follow"),
        (Request, "_set_body", lambda self, _: setattr(self, "_body", 1), "follow"),
        (fast_follow, "plain_request", without_name, "follow"),
    ],
)
def test_a_function_that_gives_other_results_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    patched: str,
    replacement: Any,
    name: str,
) -> None:
    monkeypatch.setattr(place, patched, replacement)
    assert name not in faster()
