"""Layout of a stored request, and what can be read of it without Scrapy.

A payload is a msgpack array. Its last elements are left out while they are nil:

======= ==========================================================================
element content
======= ==========================================================================
0       URL; a first character 1 to 4 means ``https://www.``, ``https://``,
        ``http://www.``, ``http://``, 0 means no prefix
1       ``meta["depth"]``
2       Referer, if it is the last of the headers: length of its common prefix with
        the URL
3       the rest of the Referer, if there is any
4       map from the numbers below to the remaining attributes
5       visits of a page that comes again, see :class:`Visit`
======= ==========================================================================

====== ================ ==========================================================
number attribute        absent means
====== ================ ==========================================================
1      callback         ``Spider.parse``; 0 means ``NO_CALLBACK``; a list is a
                        partial: method, arguments, keywords
2      errback          none
3      method           GET
4      headers          none
5      body             empty
6      cookies          none
7      meta             empty
8      encoding         utf-8
9      priority         0
10     dont_filter      False
11     flags            empty
12     cb_kwargs        empty
13     class            ``scrapy.Request``
14     state            none (attributes that a subclass has added)
====== ================ ==========================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from bloomdupe.errors import UnserializableError
from bloomdupe.foreign import check_packed
from bloomdupe.printable import printable

_FULL = 0x96
"""First byte of a stored request with a visit."""
ARRAYS = frozenset(range(0x91, 0x97))
"""First bytes of msgpack arrays of one to six elements."""

NAMES = dict(
    enumerate(
        (
            "callback", "errback", "method", "headers", "body", "cookies", "meta",
            "encoding", "priority", "dont_filter", "flags", "cb_kwargs", "class",
            "state",
        ),
        1,
    )
)  # fmt: skip
"""Attributes by their numbers."""
CALLBACK, ERRBACK, METHOD, HEADERS, BODY, COOKIES, META = range(1, 8)
ENCODING, PRIORITY, DONT_FILTER, FLAGS, CB_KWARGS, CLASS, STATE = range(8, 15)

INTEGER = 4
"""Extension type of msgpack for an integer beyond 64 bits, in hexadecimal digits."""
LONGEST_PRIORITY = 1_000
"""Greatest number of digits that are read; more could not be shown."""

_SHOWN = {METHOD, PRIORITY, CALLBACK}
_HEADS = ("", "https://www.", "https://", "http://www.", "http://")


def short_url(url: str) -> str:
    """Replace the beginning of a URL by one character, if it is a common beginning."""
    for number in range(1, len(_HEADS)):
        if url.startswith(_HEADS[number]):
            return chr(number) + url[len(_HEADS[number]) :]
    return "\0" + url if url[:1] < chr(len(_HEADS)) else url


def long_url(url: str) -> str:
    """Return the full URL of a short URL."""
    first = ord(url[0])
    return _HEADS[first] + url[1:] if first < len(_HEADS) else url


def url_of(payload: bytes) -> str:
    """Return the URL of a stored request, even if it cannot be restored.

    It is meant for a message: characters that could break a line are escaped.
    """
    try:
        unpacker = msgpack.Unpacker(unicode_errors="surrogatepass")
        unpacker.feed(payload)
        unpacker.read_array_header()
        url = long_url(str(unpacker.unpack()))
    except Exception:  # noqa: BLE001 - any damage: the message must not fail
        return f"{len(payload):,} bytes"
    return printable(url)


class Summary(NamedTuple):
    """A stored request, for people."""

    url: str
    method: str
    priority: int
    callback: str | None
    """Name of a method of the spider; None if the request has no callback."""
    rest: bytes | None
    """The stored request, if it has more than that."""


def summary_of(payload: bytes) -> Summary:
    """Describe a request; raises :class:`UnserializableError` if it is invalid."""
    elements = elements_of(payload)
    others = elements[4] if len(elements) > 4 else None
    url = long_url(elements[0])
    if not others:
        rest = payload if len(elements) > 1 else None
        return Summary(url, "GET", 0, "parse", rest)
    callback = others.get(CALLBACK, "parse")
    is_partial = isinstance(callback, list)
    if is_partial:
        callback = f"partial({callback[0] if callback else ''})"
    more = elements[1:4] != [None] * 3 or others.keys() - _SHOWN or is_partial
    return Summary(
        url,
        str(others.get(METHOD, "GET")),
        _integer(others.get(PRIORITY, 0)),
        None if callback == 0 else str(callback),
        payload if more else None,
    )


def _integer(value: Any) -> int:  # noqa: ANN401 - of a store
    if isinstance(value, msgpack.ExtType) and value.code == INTEGER:
        value = int(str(msgpack.unpackb(value.data)[0])[:LONGEST_PRIORITY], 16)
    if not isinstance(value, int):
        raise UnserializableError("its priority is no number")
    return value


def elements_of(payload: bytes) -> list[Any]:
    """Return the elements of a stored request.

    Values of types that msgpack lacks stay packed. Raises :class:`UnserializableError`
    if it is not a request.
    """
    check_kind(payload)
    try:
        check_packed(payload)
        elements = unpacked(payload)
    except Exception as error:  # any fault of the data
        raise UnserializableError(str(error) or type(error).__name__) from error
    if not (
        isinstance(elements, list)
        and 0 < len(elements) < 7
        and isinstance(elements[0], str)
        and elements[0]
        and isinstance(elements[4] if len(elements) > 4 else None, dict | None)
    ):
        raise UnserializableError("it is no request")
    return elements


def changed(
    payload: bytes, others: dict[int, Any], visit: list[Any] | None = None
) -> bytes:
    """Return a stored request with ``others`` added, and its visit replaced.

    Neither request nor values are made.
    """
    elements = unpacked(payload)
    elements += [None] * (5 - len(elements))
    if others:
        elements[4] = {**(elements[4] or {}), **others}
    if visit is not None:
        elements[5:] = [visit]
    packed: bytes = msgpack.packb(elements, unicode_errors="surrogatepass")
    return packed


def unpacked(payload: bytes) -> Any:  # noqa: ANN401 - of a store
    """Unpack a stored request; values of types that msgpack lacks stay packed."""
    return msgpack.unpackb(
        payload, strict_map_key=False, unicode_errors="surrogatepass"
    )


def check_kind(payload: bytes) -> None:
    """Refuse bytes that do not begin as a stored request does."""
    if not payload or payload[0] not in ARRAYS:
        raise UnserializableError(f"it is of an unknown kind {payload[:1]!r}")


@dataclass(frozen=True)
class Visit:
    """A page after its last visit; the payload of its next request carries it.

    It also carries the data that a retry or redirect inherits from the request before
    it. In the payload it is a list of the attributes, in this order. It is the last
    element and not a part of the request, so that a request made with a copy of its
    ``meta`` does not inherit it.
    """

    known: bool = False
    """Whether a visit has found the page."""
    rule: float | None = None
    """The rule of the first request, if this is the target of its redirect."""
    origin: bytes | None = None
    """This first request, as a payload."""
    renewed: bool = False
    """Whether it starts to come again even if it did so before: the user asked for it,
    and no other visit is pending.
    """

    @classmethod
    def of(cls, payload: bytes | None) -> Visit | None:
        """Return the visit in a payload, or None."""
        if not payload or payload[0] != _FULL:
            return None
        return cls(*unpacked(payload)[-1])

    def added_to(self, payload: bytes) -> bytes:
        """Return a payload with its visit replaced by this one."""
        return changed(payload, {}, [getattr(self, name) for name in _FIELDS])


_FIELDS = tuple(Visit.__dataclass_fields__)
