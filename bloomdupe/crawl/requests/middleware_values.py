"""MiddlewareValues: values that middlewares have set in a request on its way.

A middleware may set a value anew in each process: a token, a session, a proxy. A child
that has copied its page's ``meta`` or headers has these very objects. They must not
count in the child's identity, because they differ in the next run.
"""

from __future__ import annotations

from enum import Enum
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
LATENCY = "download_latency"
EVERYWHERE = (int, Enum, type(None))
"""Types of values of which many places have the same object; so do texts of up to one
character.
"""


class MiddlewareValues:
    """Values in the ``meta`` and headers of a request that it did not come with.

    They are known by the identity of the objects. A spider may also give such a value
    itself, for example to fetch a page by each of its proxies. One of them may equal
    the page's proxy, and a different one in the next run. If it did not count, that
    child would be taken for the other one, and lost.
    """

    __slots__ = ("_headers", "_headers_before", "_meta", "_meta_before", "_own")

    def __init__(self, request: Request) -> None:
        """``request`` has not gone through the middlewares yet."""
        self._own = request.meta
        # Two shallow copies each are all that an ordinary page costs.
        self._meta = self._meta_before = request.meta.copy()
        self._headers = self._headers_before = dict.copy(request.headers)

    def look(self, request: Request) -> None:
        """Look at the request again, which has gone through middlewares."""
        self._meta = request.meta.copy()
        self._headers = dict.copy(request.headers)

    def copied(self, meta: Mapping[Any, Any]) -> set[Any]:
        """Return the keys of these values in the ``meta`` of a child that is a copy.

        It is a copy if it has the page's ``download_latency``, an object that nothing
        else has; any other may be in a list that middleware and spider have. The spider
        may have replaced a value of the copy. That is likely for numbers and the like:
        many places have the same object. The ``meta`` may also be the request's own.
        """
        if meta is not self._own and not self._has(LATENCY, meta.get(LATENCY)):
            return set()
        return {key for key, value in meta.items() if self._has(key, value)}

    def _has(self, key: object, value: object) -> bool:
        if not _is_at(self._meta, key, value) or _is_everywhere(value):
            return False
        if self._repeats and _is_often_set(key):
            return True
        return not _is_at(self._meta_before, key, value)

    def has_header(self, name: bytes, values: list[bytes]) -> bool:
        """Whether all values of a child's header are of these."""
        found = _ids(self._headers, name)
        if not (self._repeats and name in OFTEN_SENT):
            found -= _ids(self._headers_before, name)
        return bool(values) and all(
            id(value) in found and not _is_everywhere(value) for value in values
        )

    @property
    def _repeats(self) -> bool:
        return not REPEATED.isdisjoint(self._meta_before)


def _is_everywhere(value: object) -> bool:
    short = isinstance(value, (str, bytes)) and len(value) < 2
    return short or isinstance(value, EVERYWHERE)


def _is_often_set(key: object) -> bool:
    return key in OFTEN_SET or (isinstance(key, str) and key.startswith("_"))


def _is_at(meta: Mapping[Any, Any], key: object, value: object) -> bool:
    return key in meta and meta[key] is value


def _ids(headers: dict[Any, Any], name: bytes) -> set[int]:
    return set(map(id, headers.get(name, ())))
