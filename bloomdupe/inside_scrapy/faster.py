"""Faster: requests without the checks of their constructor; calls without wrappers.

``Request()`` checks and converts its arguments, and escapes the URL. If the caller
knows that there is nothing to convert, setting the private attributes takes a third of
the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.statscollectors import MemoryStatsCollector

from bloomdupe.inside_scrapy.private_names import found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.crawler import Crawler

URL_MODULES = (
    "scrapy.http.request",
    "scrapy.http.response",
    "scrapy.http.response.text",
    "scrapy.linkextractors.lxmlhtml",
)
"""Modules that handle each link of a page."""

WRAPPERS = ("sync_inner", "async_inner", "asyncgen_inner")
"""Names of the wrappers that warn of the argument ``spider``."""

_new: Any = Request.__new__


def plain_request(
    url: str,
    encoding: str,
    callback: Callable[..., Any] | None,
    errback: Callable[..., Any] | None,
    meta: dict[str, Any] | None,
    cb_kwargs: dict[str, Any] | None,
    priority: int,
    dont_filter: bool,
) -> Request:
    """Return a ``GET`` request for a URL that is absolute and safe."""
    request = _new(Request)
    request._encoding = encoding
    request.method = "GET"
    request._meta = dict(meta) if meta else None
    request._url = url
    request._body = b""
    request.priority = priority
    request.callback = callback
    request.errback = errback
    request._cookies = None
    request._headers = None
    request.dont_filter = dont_filter
    request._cb_kwargs = dict(cb_kwargs) if cb_kwargs else None
    request._flags = None
    return request  # type: ignore[no-any-return]


def state_of(request: Request) -> dict[str, Any]:
    """Return all attributes of a request."""
    names = set(getattr(Request, "__slots__", ())) - {"__weakref__"}
    state = {name: getattr(request, name, ...) for name in names}
    return {**getattr(request, "__dict__", {}), **state}


def replace(
    name: str, original: object, replacement: object, places: Iterable[str]
) -> None:
    """Let Scrapy call another function by a name, in all crawls of the process.

    Both give the same results. A module or class in which the name means another
    function, because other code has replaced it, is left alone.
    """
    for owner in map(found, places):
        if vars(owner).get(name) is original:
            setattr(owner, name, replacement)


def call_directly(crawler: Crawler) -> None:
    """Call the methods of a crawl's middlewares without Scrapy's wrappers.

    Scrapy wraps the methods of its own middlewares, to warn of a deprecated argument.
    The managers that call them do not give it.
    """
    engine: Any = crawler.engine
    downloading = getattr(engine.downloader, "middleware", None)
    for manager in (downloading, engine.scraper.spidermw):
        for methods in getattr(manager, "methods", {}).values():
            for at, method in enumerate(methods):
                if _is_wrapped(method):
                    methods[at] = method.__wrapped__.__get__(method.__self__)


def _is_wrapped(method: Any) -> bool:
    """Whether it has the wrapper that warns, and not such as ``@inthread``."""
    place = getattr(method, "__globals__", {}).get("__name__")
    return place == "scrapy.utils.decorators" and method.__code__.co_name in WRAPPERS


class Stats(MemoryStatsCollector):
    """Scrapy's stats collector, with its methods as plain attributes.

    Scrapy 2.19 wraps each method, to warn of a deprecated argument, and looks for the
    wrapper at each access to any attribute: of 1.4 µs for a stat, and a page counts
    twenty. Here the same wrappers are looked for once.
    """

    __getattribute__ = object.__getattribute__

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        for name in dir(MemoryStatsCollector):
            if not name.startswith("_"):
                setattr(self, name, super().__getattribute__(name))
