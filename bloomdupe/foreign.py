"""Foreign: reads bytes from outside, within bounds.

A few bytes can name a large length, inflate to a thousand times as many, or refer to
the same value again and again. Here each length is compared with a bound, and with the
number of bytes that are left, before any object is made of it. Bytes that exceed a
bound raise a :class:`ValueError`.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_VALUES = 200_000
"""Most values in a request, each list and each of its elements included."""
MOST_EXTENDED = 64 << 20
"""Most bytes of all extensions, nested ones included, because each is copied."""
HARMLESS = 1_024
"""Bytes that can hold anything: no list in them has more elements than there are bytes.
"""

# See https://github.com/msgpack/msgpack/blob/master/spec.md
_ARRAYS = frozenset({*range(0x90, 0xA0), 0xDC, 0xDD})
_MAPS = frozenset({*range(0x80, 0x90), 0xDE, 0xDF})
"""First bytes of values that have elements."""

_TEXTS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def json_of(text: str, most: int = MOST_VALUES) -> Any:
    """Parse a JSON text, if it has no more than ``most`` values."""
    if len(text) > most and sum(map(_TEXTS.sub("", text).count, "[{,:")) > most:
        raise ValueError(f"it has more than {most:,} values")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def check_packed(data: bytes) -> None:
    """Refuse bytes of msgpack that take much more memory than there are bytes.

    An extension may hold msgpack itself, so its values count, too. The reader of the
    bytes decides whether they are whole, and how deep it follows them.
    """
    values = extended = 0
    parts = [data] if len(data) > HARMLESS else []
    while parts:
        for elements, extension in _values_in(parts.pop()):
            values += 1 + elements
            extended += len(extension)
            if values > MOST_VALUES:
                raise ValueError(f"it has more than {MOST_VALUES:,} values")
            if extended > MOST_EXTENDED:
                raise ValueError(f"it takes more than {MOST_EXTENDED:,} bytes")
            if extension:
                parts.append(extension)


def _values_in(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield of each value how many elements it has, and the bytes of an extension."""
    unpacker = msgpack.Unpacker(io.BytesIO(data), unicode_errors="surrogatepass")
    with contextlib.suppress(msgpack.OutOfData):
        while (at := unpacker.tell()) < len(data):
            if data[at] in _ARRAYS:
                yield unpacker.read_array_header(), b""
            elif data[at] in _MAPS:
                yield 2 * unpacker.read_map_header(), b""
            else:
                value = unpacker.unpack()
                yield 0, value.data if isinstance(value, msgpack.ExtType) else b""
