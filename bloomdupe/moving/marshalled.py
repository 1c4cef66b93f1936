"""Marshalled: reads plain values written by :mod:`marshal`, within bounds.

:func:`marshal.loads` believes each length that it finds, and reserves so much memory.
Here a length is compared with the number of bytes left. All types of ``marshal`` that
can be part of a request are read; code objects are refused. Versions 0 to 5, see
``Python/marshal.c`` of CPython.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from bloomdupe.foreign import LARGEST, MOST_VALUES

if TYPE_CHECKING:
    from collections.abc import Callable

_INT = Struct("<i")
_INT64 = Struct("<q")
_FLOAT = Struct("<d")
_SHORT = Struct("<H")
_FLAG = 0x80
"""Flag of a type: references to the value may follow."""
_END = object()
"""Ends a dict."""
_BITS = 15
"""Bits of an integer's digit."""
DEEPEST = 100
"""Levels of nested lists; each takes a few frames of Python's stack."""


def unmarshal(data: bytes) -> Any:  # noqa: ANN401 - any plain value
    """Return the value in ``data``; raises :class:`ValueError` if it cannot be read."""
    if len(data) > LARGEST:
        raise ValueError(f"it is longer than {LARGEST:,} bytes")
    reader = _Reader(data)
    try:
        return reader.whole()
    except TypeError as error:  # a key or a member that has no hash
        raise ValueError(str(error)) from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._level = 0
        self._known: list[tuple[Any, int, int]] = []
        """Values that may be referred to, with their numbers of values and bytes."""
        self._values = 0
        self._bytes = 0
        """Bytes of texts, counted at each reference."""

    def value(self) -> Any:  # noqa: ANN401
        """Read the next value."""
        code = self._taken(1)[0]
        kind = chr(code & ~_FLAG)
        self._count(1, 0)
        if kind == "r":
            return self._referred()
        read = _KINDS.get(kind)
        if read is None:
            raise ValueError(f"it has a value of type {kind!r}, which no request has")
        place = len(self._known)
        if code & _FLAG:
            self._known.append((_END, 0, 0))
        values, size = self._values, self._bytes
        self._level += 1
        if self._level > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} levels deep")
        found = read(self)
        self._level -= 1
        if code & _FLAG:
            self._known[place] = found, self._values - values, self._bytes - size
        return found

    def _referred(self) -> Any:  # noqa: ANN401
        place = self._number()
        if not 0 <= place < len(self._known) or self._known[place][0] is _END:
            raise ValueError("it refers to something that is not there")
        found, values, size = self._known[place]
        self._count(values, size)
        return found

    def _count(self, values: int, size: int) -> None:
        self._values += values
        self._bytes += size
        if self._values > MOST_VALUES or self._bytes > LARGEST:
            raise ValueError(
                f"it has more than {MOST_VALUES:,} values, or {LARGEST:,} bytes"
            )

    def _taken(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"it is cut off, or damaged, at byte {self._at:,}")
        self._at += size
        return self._data[self._at - size : self._at]

    def _number(self) -> int:
        return int(_INT.unpack(self._taken(4))[0])

    def _text(self, size: int) -> bytes:
        self._count(0, max(size, 0))
        return self._taken(size)

    def _long(self) -> int:
        digits = self._number()
        data = self._text(2 * abs(digits))
        found = 0
        if len(data) > 2 * MOST_VALUES // 10:
            raise ValueError("it has an integer of too many digits")
        for (digit,) in reversed(list(_SHORT.iter_unpack(data))):
            found = found << _BITS | digit
        return -found if digits < 0 else found

    def _items(self, many: int) -> list[Any]:
        if not 0 <= many <= len(self._data) - self._at:
            raise ValueError(f"it is cut off, or damaged, at byte {self._at:,}")
        return [self.whole() for _ in range(many)]

    def whole(self) -> Any:  # noqa: ANN401
        found = self.value()
        if found is _END:
            raise ValueError("it has an end where a value should be")
        return found

    def _dict(self) -> dict[Any, Any]:
        found = {}
        while (key := self.value()) is not _END:
            found[key] = self.whole()
        return found


def _one(value: object) -> Callable[[_Reader], Any]:
    return lambda _: value


def _text_of(width: str, encoding: str) -> Callable[[_Reader], str]:
    def read(reader: _Reader) -> str:
        size = reader._taken(1)[0] if width == "B" else reader._number()
        return reader._text(size).decode(encoding, "surrogatepass")

    return read


_KINDS: dict[str, Callable[[_Reader], Any]] = {
    "0": _one(_END),
    "N": _one(None),
    "T": _one(True),
    "F": _one(False),
    ".": _one(...),
    "i": _Reader._number,
    "I": lambda reader: _INT64.unpack(reader._taken(8))[0],
    "l": _Reader._long,
    "g": lambda reader: _FLOAT.unpack(reader._taken(8))[0],
    "f": lambda reader: float(reader._taken(reader._taken(1)[0])),
    "y": lambda reader: complex(*(_FLOAT.unpack(reader._taken(8))[0] for _ in "ri")),
    "s": lambda reader: reader._text(reader._number()),
    "a": _text_of("I", "ascii"),
    "A": _text_of("I", "ascii"),
    "z": _text_of("B", "ascii"),
    "Z": _text_of("B", "ascii"),
    "u": _text_of("I", "utf-8"),
    "t": _text_of("I", "utf-8"),
    ")": lambda reader: tuple(reader._items(reader._taken(1)[0])),
    "(": lambda reader: tuple(reader._items(reader._number())),
    "[": lambda reader: reader._items(reader._number()),
    "<": lambda reader: set(reader._items(reader._number())),
    ">": lambda reader: frozenset(reader._items(reader._number())),
    "{": _Reader._dict,
}
