"""Foreign: reads bytes from outside, within bounds.

A few bytes can name a large length, inflate to a thousand times as many, or refer to
the same value again and again. Here each length is compared with a bound, and with the
number of bytes that are left, before any object is made of it. Bytes that exceed a
bound raise a :class:`ValueError`.
"""

from __future__ import annotations

import json
import re
from typing import Any

LARGEST = 16 << 20
"""Most bytes of a request, its body included."""
MOST_VALUES = 200_000
"""Most values in a request, each list and each of its elements included."""
DEEPEST = 200
"""Most levels of nested lists."""
DEEPEST_EXTENSION = 100
"""Most levels of nested extensions of msgpack."""

_TEXTS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_MARKS = re.compile(r"[\[\]{}]")


def json_of(given: str | bytes, most: int = MOST_VALUES) -> Any:
    """Parse a JSON text, if it has no more than ``most`` values."""
    text = given if isinstance(given, str) else given.decode()
    if text.count("[") + text.count("{") > DEEPEST or len(text) > most:
        _check_marks(_TEXTS.sub("", text), most)
    return json.loads(text)


def _check_marks(text: str, most: int) -> None:
    """Refuse a JSON text with too many values or levels; its strings were removed."""
    values = sum(map(text.count, "[{,:"))
    if values > most:
        raise ValueError(f"it has more than {most:,} values")
    level = 0
    for mark in _MARKS.findall(text):
        level += 1 if mark in "[{" else -1
        if level > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")


# msgpack, see https://github.com/msgpack/msgpack/blob/master/spec.md

_FIXED = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8,
    0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
}  # fmt: skip
"""Number of bytes after the first byte of nil, booleans and numbers."""
_TEXT = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_EXTENSION = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_ARRAY = {0xDC: 2, 0xDD: 4}
_MAP = {0xDE: 2, 0xDF: 4}
"""Number of bytes of the length, which follows the first byte."""
MOST_EXTENDED = 4 * LARGEST
"""Most bytes of all extensions, nested ones included, because each is copied."""


def check_packed(data: bytes) -> None:
    """Refuse bytes of msgpack that take much more memory than there are bytes.

    An extension may hold msgpack itself, so its values count, too. The reader of the
    bytes decides whether they are msgpack at all.
    """
    if len(data) > LARGEST:
        raise ValueError(f"it is longer than {LARGEST:,} bytes")
    values = extended = 0
    parts = [(0, len(data), 0)]
    while parts:
        at, end, level = parts.pop()
        if level > DEEPEST_EXTENSION:
            raise ValueError(f"it is nested more than {DEEPEST_EXTENSION} levels deep")
        while at < end:
            at, many, extension = _head(data, at)
            values += 1 + many
            if values > MOST_VALUES:
                raise ValueError(f"it has more than {MOST_VALUES:,} values")
            if extension is not None:
                extended += extension
                if extended > MOST_EXTENDED:
                    raise ValueError(f"it takes more than {MOST_EXTENDED:,} bytes")
                parts.append((at, min(at + extension, end), level + 1))
                at += extension


def _head(data: bytes, at: int) -> tuple[int, int, int | None]:
    """Return the place of the next value, the number of values, and the extension.

    The second number counts the elements of this value. The third is the size of an
    extension, which is not skipped; None for all other values. If a value claims more
    elements than there are bytes left, it counts as empty, because no reader makes room
    for them.
    """
    kind = data[at]
    at += 1
    many, extension = 0, None
    if kind < 0x80 or kind >= 0xE0 or kind == 0xC1:  # a small number
        pass
    elif kind < 0xC0:
        if kind >= 0xA0:
            at += kind & 0x1F
        else:
            many = (kind & 0x0F) << (kind < 0x90)
    elif kind in _FIXED:
        at += _FIXED[kind]
    elif 0xD4 <= kind <= 0xD8:
        at, extension = at + 1, 1 << (kind - 0xD4)
    else:
        return _long_head(data, at, kind)
    return at, many, extension


def _long_head(data: bytes, at: int, kind: int) -> tuple[int, int, int | None]:
    if kind in _TEXT:
        at, size = _length(data, at, _TEXT[kind])
        return at + size, 0, None
    if kind in _EXTENSION:
        at, size = _length(data, at, _EXTENSION[kind])
        return at + 1, 0, size
    width = _ARRAY.get(kind) or _MAP[kind]
    at, many = _length(data, at, width)
    many <<= kind in _MAP
    return at, many if many <= len(data) - at else 0, None


def _length(data: bytes, at: int, width: int) -> tuple[int, int]:
    return at + width, int.from_bytes(data[at : at + width], "big")
