"""Payload: the head of a stored request, which is its URL.

A payload is a msgpack array. Its first element is the URL, with a common beginning
replaced by one character. The writer of the payload defines the other elements.
"""

from __future__ import annotations

import msgpack  # type: ignore[import-untyped]

from bloomdupe.printable import printable

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
