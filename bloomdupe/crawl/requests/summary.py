"""Summary: a stored request for people. Needs no Scrapy, and runs no code of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgpack  # type: ignore[import-untyped]

from bloomdupe.crawl.requests.layout import (
    ARRAYS,
    CALLBACK,
    INTEGER,
    METHOD,
    PRIORITY,
)
from bloomdupe.errors import UnserializableError
from bloomdupe.foreign import check_packed
from bloomdupe.frontier.payload import long_url

LONGEST_PRIORITY = 1_000
"""Greatest number of digits that are read; more could not be shown."""


_SHOWN = {METHOD, PRIORITY, CALLBACK}


class Summary(NamedTuple):
    """A stored request."""

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
    return Summary(
        url,
        str(others.get(METHOD, "GET")),
        _integer(others.get(PRIORITY, 0)),
        None if callback == 0 else str(callback),
        payload if elements[1:4] != [None] * 3 or others.keys() - _SHOWN else None,
    )


def _integer(value: Any) -> int:  # noqa: ANN401 - of a store
    if isinstance(value, msgpack.ExtType) and value.code == INTEGER:
        value = int(value.data[:LONGEST_PRIORITY], 16)
    if not isinstance(value, int):
        raise UnserializableError("its priority is no number")
    return value


def elements_of(payload: bytes) -> list[Any]:
    """Return the elements of a stored request, see ``crawl/requests/serializer.py``.

    Values of types that msgpack lacks stay packed. Raises :class:`UnserializableError`
    if it is not a request.
    """
    check_payload(payload)
    try:
        elements = _unpacked(payload)
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


def check_payload(payload: bytes) -> None:
    """Refuse a stored request that would take much more memory than it has bytes.

    Raises :class:`UnserializableError`.
    """
    try:
        check_packed(payload)
    except ValueError as error:
        raise UnserializableError(str(error)) from error


def _unpacked(payload: bytes) -> Any:  # noqa: ANN401 - any value
    if payload and payload[0] in ARRAYS:
        return msgpack.unpackb(
            payload, strict_map_key=False, unicode_errors="surrogatepass"
        )
    raise ValueError(f"it is of an unknown kind {payload[:1]!r}")
