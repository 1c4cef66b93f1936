# mypy: ignore-errors
# ruff: noqa: ANN401
"""MiddlewareValues: values that middlewares have set in a request on its way.

A middleware may set a value anew in each process: a token, a session, a proxy. A child
that has copied it from its page's ``meta`` or headers must have the same identity in
the next run, so the value must not count.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Request

REPEATED = frozenset({"redirect_times", "retry_times"})
"""Keys of the ``meta`` of a retry or redirect.

It came with values that middlewares have set in the request before it. Which ones is
not known, so those count that often are.
"""
OFTEN_SET = frozenset({"download_slot", "download_timeout", "proxy"})
"""Keys of ``meta`` with such values, and so are keys that begin with an underscore."""
OFTEN_SENT = frozenset(
    {
        b"Accept", b"Accept-Encoding", b"Accept-Language", b"Cookie",
        b"If-Modified-Since", b"If-None-Match", b"Proxy-Authorization", b"User-Agent",
    }
)  # fmt: skip
"""Headers that Scrapy's middlewares set, likewise."""
SMALL = range(-5, 257)
"""Python has one object for each of these integers."""


class MiddlewareValues:
    """Values in the ``meta`` and headers of a request that it did not come with.

    Each of them becomes an object of its own, which nothing but the page has. So a
    child that has this very object has copied it. A spider may also give an equal value
    itself, for example to fetch a page by each of the proxies from which a middleware
    chooses. That value counts: otherwise two such children could be taken for one.
    """

    __slots__ = ("_headers", "_headers_before", "_meta", "_meta_before")

    def __init__(self, request: Request) -> None:
        """``request`` has not gone through the middlewares yet."""
        self._meta = self._meta_before = request.meta.copy()
        self._headers = self._headers_before = _headers_of(request)

    def look(self, request: Request) -> None:
        """Look at the request again, which has gone through middlewares."""
        meta = request.meta
        for key, value in meta.items():
            if not _is_at(self._meta, key, value):
                meta[key] = _own(value)
        for name, values in dict.items(request.headers):
            known = self._headers.get(name, ())
            if len(known) != len(values) or not all(map(is_, known, values)):
                values[:] = map(_own, values)
        self._meta, self._headers = meta.copy(), _headers_of(request)

    def copied(self, meta: Mapping[Any, Any]) -> set[Any]:
        """Return the keys of a child's ``meta`` with values that it has copied."""
        return {key for key, value in meta.items() if self._has(key, value)}

    def _has(self, key: object, value: object) -> bool:
        if not (_is_at(self._meta, key, value) and _can_be_own(value)):
            return False
        return (self._repeats and _is_often_set(key)) or not _is_at(
            self._meta_before, key, value
        )

    def has_header(self, name: bytes, values: list[bytes]) -> bool:
        """Whether a child has copied all values of a header."""
        of_parent = self._repeats and name in OFTEN_SENT
        return bool(values) and all(
            _is_among(self._headers, name, value)
            and _can_be_own(value)
            and (of_parent or not _is_among(self._headers_before, name, value))
            for value in values
        )

    @property
    def _repeats(self) -> bool:
        return not REPEATED.isdisjoint(self._meta_before)


def _headers_of(request: Request) -> dict[bytes, list[bytes]]:
    return {name: [*values] for name, values in dict.items(request.headers)}


def _is_often_set(key: object) -> bool:
    return key in OFTEN_SET or (isinstance(key, str) and key.startswith("_"))


def _is_at(meta: Mapping[Any, Any], key: object, value: object) -> bool:
    return key in meta and meta[key] is value


def _is_among(headers: dict[bytes, list[bytes]], name: bytes, value: bytes) -> bool:
    return any(each is value for each in headers.get(name, ()))


def _can_be_own(value: object) -> bool:
    """Whether Python can have several objects with this value; see :func:`_own`.

    Values of other types may be an object that the middleware has given to the spider.
    """
    kind = type(value)
    if kind is str or kind is bytes:
        return len(value) > 1  # type: ignore[arg-type]
    return kind is float or (kind is int and value not in SMALL)


def _own(value: Any) -> Any:
    """Return a new object with the same value, if there can be one."""
    kind = type(value)
    if kind is str or kind is bytes:
        return value[:1] + value[1:]
    if kind is float:
        return value * 1.0
    return value + 1 - 1 if kind is int else value
