"""Faster: requests without checks, calls without wrappers, signals only if heard.

``Request()`` checks and converts its arguments, and escapes the URL. If the caller
knows that there is nothing to convert, setting the private attributes takes a third of
the time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from pydispatch.dispatcher import Any as AnySignal  # type: ignore[import-untyped]
from pydispatch.dispatcher import connections
from scrapy import Request, signals
from scrapy.core.downloader import Downloader
from scrapy.statscollectors import MemoryStatsCollector

from bloomdupe.inside_scrapy.engine import all_pass, listeners, offsite_of
from bloomdupe.inside_scrapy.private_names import found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from scrapy.crawler import Crawler
    from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware

URL_MODULES = (
    "scrapy.http.request",
    "scrapy.http.response",
    "scrapy.http.response.text",
    "scrapy.linkextractors.lxmlhtml",
)
"""Modules that handle each link of a page."""

REFERER = ("scrapy.spidermiddlewares.referer",)
"""The module that takes the URL of the page apart for each of its links."""

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


class ScheduledSignal:
    """Sends the engine's signal ``request_scheduled`` where it has an effect.

    It is sent for every link, and that costs a tenth of a crawl. Mostly nobody listens
    but Scrapy's filter of offsite links, which lets most of them pass.
    """

    def __init__(self, crawler: Crawler) -> None:
        engine: Any = crawler.engine
        self._crawler = crawler
        self._send = engine.signals.send_catch_log
        self._sender = engine.signals.sender
        self._receivers: list[Any] | None = None
        """All receivers when they were looked at; None: they were not."""
        self._offsite: list[OffsiteMiddleware] = []
        self._others = True
        """Whether others than these listen."""
        engine.signals.send_catch_log = self.send_catch_log

    def send_catch_log(self, signal: Any = AnySignal, **named: Any) -> Any:
        """Send a signal; called by the engine."""
        if signal is signals.request_scheduled and not self._is_heard(named["request"]):
            return []
        return self._send(signal, **named)

    def _is_heard(self, request: Request) -> bool:
        receivers = _receivers(self._sender)
        if receivers != self._receivers:
            self._receivers = receivers
            heard = listeners(self._crawler, signals.request_scheduled)
            self._offsite = [*filter(None, map(offsite_of, heard))]
            self._others = len(self._offsite) < len(heard)
        if self._others:
            return True
        try:
            return not all_pass(self._offsite, request, self._crawler)
        except Exception:  # noqa: BLE001 - the log has it when the signal is sent
            return True


def _receivers(sender: object) -> list[Any]:
    """Return all that the signal ``request_scheduled`` of a sender calls."""
    # getAllReceivers() takes several times as long.
    signal = signals.request_scheduled
    ours = connections.get(id(sender), {})
    of_all = connections.get(id(AnySignal), {})
    return [
        *ours.get(signal, ()),
        *ours.get(AnySignal, ()),
        *of_all.get(signal, ()),
        *of_all.get(AnySignal, ()),
    ]


PROBED = (
    "http://u:p@A.example:80/b?c#d",
    "https://[::1]:8000/",
    "http://?/",
    "ftp://a/b",
)


def find_slots_faster(crawler: Crawler) -> None:
    """Let the downloader find the slots of requests without all parts of their URLs."""
    engine: Any = crawler.engine
    downloader = engine.downloader
    usual: Any = getattr(downloader, "get_slot_key", None)
    by_ip = getattr(downloader, "ip_concurrency", 0)
    if by_ip or getattr(usual, "__func__", None) is not Downloader.get_slot_key:
        return

    def get_slot_key(request: Request) -> str:
        url = request.url
        if request.meta.get("download_slot") is None and url[:4] == "http":
            end = url.find("/", 8)
            if end > 0 and url.startswith(("http://", "https://")):
                return _host_of(url[:end])
        return usual(request)  # type: ignore[no-any-return]

    if all(usual(one) == get_slot_key(one) for one in map(Request, PROBED)):
        downloader.get_slot_key = get_slot_key


@lru_cache(10_000)
def _host_of(origin: str) -> str:
    """Return the host of a URL that ends before its path, or later."""
    return urlparse(origin).hostname or ""


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
