"""plain_request: makes a request as its constructor does, without its checks.

``Request()`` checks and converts its arguments, and escapes the URL. If the caller
knows that there is nothing to convert, setting the private attributes takes a third of
the time. :func:`makes_the_same` compares both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import request as request_module

if TYPE_CHECKING:
    from collections.abc import Callable

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


def makes_the_same() -> bool:
    """Whether the constructor of this Scrapy sets the same attributes.

    It does since Scrapy 2.19, unless other code has replaced it.
    """
    if Request.__init__.__globals__ is not vars(request_module):
        return False
    url, some = "http://a.example/", {"a": 1}
    callback: Any = print
    errback: Any = len
    for given in ({}, some):
        more = given == some
        try:
            mine = plain_request(
                url, "cp1252", callback, errback, given, given, 2, more
            )
        except AttributeError:  # one of them has another name
            return False
        usual = Request(
            url,
            encoding="cp1252",
            callback=callback,
            errback=errback,
            meta=given,
            cb_kwargs=given,
            priority=2,
            dont_filter=more,
        )
        if state_of(mine) != state_of(usual):
            return False
    return True


def state_of(request: Request) -> dict[str, Any]:
    """Return all attributes of a request."""
    names = set(getattr(Request, "__slots__", ())) - {"__weakref__"}
    state = {name: getattr(request, name, ...) for name in names}
    return {**getattr(request, "__dict__", {}), **state}
