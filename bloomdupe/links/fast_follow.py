"""follow: ``response.follow()``, several times as fast for most links.

Most links of a page are strings of safe characters, and become ``GET`` requests
without headers or body. For such a link there is nothing to check, to convert or to
escape, and the encoding and the base URL are those of the page. All other links take
the usual way. The requests are the same in every case.
"""

from __future__ import annotations

import gc
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib import parse
from weakref import ref

from scrapy import Request, signals
from scrapy.http import HtmlResponse, TextResponse, XmlResponse
from scrapy.http import request as request_module
from scrapy.utils.url import strip_url
from w3lib import url as w3lib_url

from bloomdupe.inside_scrapy.faster import (
    REFERER,
    URL_MODULES,
    ScheduledSignal,
    call_directly,
    find_slots_faster,
    plain_request,
    replace,
)
from bloomdupe.inside_scrapy.private_names import get_base_url
from bloomdupe.links import safe_urls
from bloomdupe.links.safe_urls import (
    PROBED_BASE,
    PROBED_LINKS,
    PROBES,
    safe_url_string,
    urljoin,
)
from bloomdupe.requests.objects import state_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler
    from typing_extensions import Self


scrapys_follow: Any = TextResponse.follow
_TYPES = frozenset({HtmlResponse, TextResponse, XmlResponse})


class _Page(NamedTuple):
    """The part of a response that its links have in common."""

    response: Callable[[], TextResponse | None]
    parts: dict[str, str] | None
    """Parts of the base URL; None if its links take the usual way."""
    encoding: str


_page = _Page(lambda: None, None, "")
"""The response whose links were followed last. Neither its encoding nor its base URL
ever changes, as Scrapy remembers both.
"""


@wraps(scrapys_follow)
def follow(
    self: TextResponse,
    url: Any,
    callback: Any = None,
    method: str = "GET",
    headers: Any = None,
    body: Any = None,
    cookies: Any = None,
    meta: dict[str, Any] | None = None,
    encoding: str | None = None,
    priority: int = 0,
    dont_filter: bool = False,
    errback: Any = None,
    cb_kwargs: dict[str, Any] | None = None,
    flags: Any = None,
) -> Request:
    """Return the result of Scrapy's method of this name."""
    if (
        type(url) is str
        and method == "GET"
        and not (headers or body or cookies or flags)
        and encoding is None
        and (callback is None or callable(callback))
        and (errback is None or callable(errback))
        and isinstance(priority, int)
    ):
        page = _page
        if page.response() is not self:
            page = _page_of(self)
        joined = page.parts and safe_urls.joined(page.parts, url)
        if joined:
            return plain_request(
                joined,
                page.encoding,
                callback,
                errback,
                meta,
                cb_kwargs,
                priority,
                dont_filter,
            )
    return cast(
        "Request",
        scrapys_follow(
            self,
            url,
            callback,
            method,
            headers,
            body,
            cookies,
            meta,
            encoding,
            priority,
            dont_filter,
            errback,
            cb_kwargs,
            flags,
        ),
    )


def _page_of(response: TextResponse) -> _Page:
    """Return the common base of the links of a response, and remember it."""
    global _page  # noqa: PLW0603 - the callback of one page after the other
    parts, encoding = None, ""
    if type(response) in _TYPES:
        encoding = response.encoding
        if safe_urls.keeps_ascii(encoding):
            parts = safe_urls.parts_of(get_base_url(response))
    _page = page = _Page(ref(response), parts, encoding)
    return page


def follows_the_same() -> bool:
    """Whether this Scrapy's method gives the same requests for some links.

    Other code may have replaced the method, or the constructor of requests.
    """
    its_module = getattr(Request.__init__, "__globals__", None)
    is_replaced = its_module is not vars(request_module)
    if is_replaced or _names(scrapys_follow) != _names(follow):
        return False
    page = HtmlResponse(PROBED_BASE, body=b"", encoding="cp1252")
    try:
        return all(
            state_of(follow(page, url, **given))
            == state_of(scrapys_follow(page, url, **given))
            for url in PROBED_LINKS
            for given in PROBED_ARGUMENTS
        )
    except AttributeError:  # one of a request has another name
        return False


PROBED_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {
        "callback": print,
        "errback": len,
        "meta": {"a": 1},
        "cb_kwargs": {"a": 1},
        "priority": 2,
        "dont_filter": True,
    },
)


def _names(function: Any) -> list[str]:
    """Return the names of a function's own parameters."""
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount])


class FastFunctions:
    """An extension: Scrapy calls faster functions, in all crawls of the process.

    ``urljoin`` and ``safe_url_string`` take the place of the original functions in
    modules of Scrapy that have imported them, and ``follow`` that of the method of
    responses. The results are the same.
    A name that has been replaced by other code is left alone. Methods of Scrapy's own
    middlewares are called without their wrappers, the signal ``request_scheduled`` is
    sent where it has an effect, and the garbage collector does not look at what is
    there when the first crawl begins.
    ``EXTENSIONS = {"bloomdupe.links.fast_follow.FastFunctions": None}`` switches it
    off.
    """

    def __init__(self) -> None:
        for name, functions in faster().items():
            replace(name, *functions)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension of a crawl; called by Scrapy."""

        def opened() -> None:
            call_directly(crawler)
            ScheduledSignal(crawler)
            find_slots_faster(crawler)
            if not gc.get_freeze_count():  # or garbage of other crawls would stay
                gc.freeze()

        crawler.signals.connect(opened, signals.spider_opened, weak=False)
        return cls()


def faster() -> dict[str, tuple[Any, Any, tuple[str, ...]]]:
    """Return the original, the replacement and the places of each faster function.

    Functions that give other results with these versions of Scrapy, w3lib and Python
    are missing.
    """
    found: dict[str, tuple[Any, Any, tuple[str, ...]]] = {}
    base, links = PROBED_BASE, PROBED_LINKS
    escape, join = w3lib_url.safe_url_string, parse.urljoin
    if all(escape(url) == url for url in PROBES):
        found["safe_url_string"] = escape, safe_url_string, URL_MODULES
    if all(join(base, url) == urljoin(base, url) for url in links):
        found["urljoin"] = join, urljoin, URL_MODULES
    if len(found) == 2 and follows_the_same():
        found["follow"] = scrapys_follow, follow, ("scrapy.http.TextResponse",)
    for function in (strip_url, parse.urlparse):  # the same URL for each link
        found[function.__name__] = function, lru_cache(128)(function), REFERER
    return found
