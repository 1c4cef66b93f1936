"""follow: ``response.follow()``, several times as fast for most links.

Most links of a page are strings of safe characters, and become ``GET`` requests
without headers or body. For such a link there is nothing to check, to convert or to
escape, and the encoding and the base URL are those of the page. All other links take
the usual way. The requests are the same in every case.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import ref

from scrapy.http import HtmlResponse, TextResponse, XmlResponse

from bloomdupe.inside_scrapy.faster import (
    makes_the_same,
    plain_request,
    state_of,
)
from bloomdupe.inside_scrapy.private_names import get_base_url
from bloomdupe.links import safe_urls

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

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
    url: Any,  # noqa: ANN401 - a string, a Link, a Selector
    callback: Any = None,  # noqa: ANN401
    method: str = "GET",
    headers: Any = None,  # noqa: ANN401
    body: Any = None,  # noqa: ANN401
    cookies: Any = None,  # noqa: ANN401
    meta: dict[str, Any] | None = None,
    encoding: str | None = None,
    priority: int = 0,
    dont_filter: bool = False,
    errback: Any = None,  # noqa: ANN401
    cb_kwargs: dict[str, Any] | None = None,
    flags: Any = None,  # noqa: ANN401
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
            page = _look_at(self)
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


def _look_at(response: TextResponse) -> _Page:
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
    """Whether this Scrapy's method gives the same requests for some links."""
    if _names(scrapys_follow) != _names(follow) or not makes_the_same():
        return False
    page = HtmlResponse(safe_urls.PROBED_BASE, body=b"", encoding="cp1252")
    return all(
        state_of(follow(page, url)) == state_of(scrapys_follow(page, url))
        for url in safe_urls.PROBED_LINKS
    )


def _names(function: Any) -> list[str]:  # noqa: ANN401
    """Return the names of a function's own parameters."""
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount])
