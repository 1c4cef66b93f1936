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

OFTEN_SET = frozenset({"download_slot", "download_timeout", "proxy"})
"""Keys of ``meta`` whose values count as set even if the request came with them, and so
do keys that begin with an underscore: a stored retry or redirect has them from the
request before it.
"""
OFTEN_SENT = frozenset(
    {
        b"Accept", b"Accept-Encoding", b"Accept-Language", b"Cookie",
        b"If-Modified-Since", b"If-None-Match", b"Proxy-Authorization", b"User-Agent",
    }
)  # fmt: skip
"""Headers that Scrapy's middlewares set, likewise."""


LATENCY = "download_latency"
EVERYWHERE = (int, Enum, type(None))
"""Types of values of which many places have the same object."""


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
        if not _is_at(self._meta, key, value) or isinstance(value, EVERYWHERE):
            return False
        if key in OFTEN_SET or (isinstance(key, str) and key.startswith("_")):
            return True
        return not _is_at(self._meta_before, key, value)

    def has_header(self, name: bytes, values: list[bytes]) -> bool:
        """Whether all values of a child's header are of these."""
        found = _ids(self._headers, name)
        if name not in OFTEN_SENT:
            found -= _ids(self._headers_before, name)
        return bool(values) and found.issuperset(map(id, values))


def _is_at(meta: Mapping[Any, Any], key: object, value: object) -> bool:
    return key in meta and meta[key] is value


def _ids(headers: dict[Any, Any], name: bytes) -> set[int]:
    return set(map(id, headers.get(name, ())))
