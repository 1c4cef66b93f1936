"""MiddlewareValues: values that middlewares have set in a request on its way.

A middleware may set a value anew in each process: a token, a session, a proxy. A child
that has copied its page's ``meta`` or headers has these very objects. They must not
count in the child's identity, because they differ in the next run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Request

OFTEN_SET = frozenset({"download_slot", "download_timeout", "proxy"})
"""Keys of ``meta`` that count even if the request came with them, and so do keys that
begin with an underscore: a stored retry or redirect has them from the request before
it.
"""
OFTEN_SENT = frozenset(
    {
        b"Accept", b"Accept-Encoding", b"Accept-Language", b"Cookie",
        b"If-Modified-Since", b"If-None-Match", b"Proxy-Authorization", b"User-Agent",
    }
)  # fmt: skip
"""Headers that Scrapy's middlewares set, likewise."""


PLAIN = (str, bytes, int, type(None))
"""Types of values of which many places may have the same object."""


class MiddlewareValues:
    """Values in the ``meta`` and headers of a request that it did not come with.

    They are known by the identity of the objects. A spider may also give such a value
    itself, for example to fetch a page by each of its proxies. One of them may equal
    the page's proxy, and a different one in the next run. If it did not count, that
    child would be taken for the other one, and lost.
    """

    __slots__ = ("_headers", "_headers_before", "_meta", "_meta_before")

    def __init__(self, request: Request) -> None:
        """``request`` has not gone through the middlewares yet."""
        # Two shallow copies each are all that an ordinary page costs.
        self._meta = self._meta_before = request.meta.copy()
        self._headers = self._headers_before = dict.copy(request.headers)

    def look(self, request: Request) -> None:
        """Look at the request again, which has gone through middlewares."""
        self._meta = request.meta.copy()
        self._headers = dict.copy(request.headers)

    def copied(self, meta: Mapping[Any, Any]) -> set[Any]:
        """Return the keys of the values that a child's ``meta`` has copied.

        Middleware and spider may have one string or number from the same list. So it
        counts as copied only beside a value that the child can have from the page
        alone, such as Scrapy's ``download_latency``.
        """
        same = {key for key, value in meta.items() if _is_at(self._meta, key, value)}
        often = {
            key
            for key in same
            if key in OFTEN_SET or (isinstance(key, str) and key.startswith("_"))
        }
        new = {key for key in same if not _is_at(self._meta_before, key, meta[key])}
        if all(isinstance(meta[key], PLAIN) for key in new):
            return often
        return often | new

    def has_header(self, name: bytes, values: list[bytes]) -> bool:
        """Whether all values of a child's header are of these."""
        found = _ids(self._headers, name)
        if name not in OFTEN_SENT:
            found -= _ids(self._headers_before, name)
        return bool(values) and found.issuperset(map(id, values))


def _is_at(meta: dict[Any, Any], key: object, value: object) -> bool:
    return key in meta and meta[key] is value


def _ids(headers: dict[Any, Any], name: bytes) -> set[int]:
    return set(map(id, headers.get(name, ())))
