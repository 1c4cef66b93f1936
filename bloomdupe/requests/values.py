"""Values as msgpack, including types that msgpack does not know.

A value of an unknown type becomes an extension type, so that it comes back unchanged:
tuples, sets, times and the like, and objects of the project's own types
(:mod:`bloomdupe.requests.objects`). The content of an extension is a text, or a list of
its parts in msgpack.

Equal values have equal bytes in each process, so a digest of the bytes tells values
apart: sets are sorted, and dictionaries keep their order.

A value of a class that derives from a builtin type is refused, because it would come
back as a plain value. Strings of lxml, which know their place in a tree, become plain
strings: that tree is gone.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import math
import re
import uuid
import zoneinfo
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]
from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError
from bloomdupe.requests.layout import INTEGER
from bloomdupe.requests.objects import put_together, take_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_LEVELS = 100
"""Greatest depth of lists, objects and the like in each other.

An extension takes 40 kB of the C stack when it is read, and an overflow of that stack
kills the process.
"""

MOST_BYTES = 64 << 20
"""Bytes of one request. Larger requests would stop the reactor for seconds."""

EXTENSION = 512
"""Bytes for which a value of a type that msgpack does not know counts beside its
content. It takes as long to write one as to write so many bytes of text."""

REMEDY = "; plain values, dataclasses and items can be stored"

_TEXTS = frozenset({str, bytes})
_CONTAINERS = frozenset({list, dict})
_PLAIN = _TEXTS | _CONTAINERS | {int, float, bool, type(None)}
_BUFFERS = frozenset({bytearray, memoryview})
"""Types that msgpack would write as bytes, so that they would come back as bytes."""
_TEXT_OF_LXML = "lxml.etree._ElementUnicodeResult"

_ZONE_KEY = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
"""Keys of the IANA time zone database. No other text in a store is looked up there."""

_FACTORIES: dict[str | None, Any] = {
    kind.__name__: kind for kind in (int, float, str, list, set, dict, tuple)
} | {None: None}
"""Factories that a ``defaultdict`` may have, by the names that are stored."""


_AS_IT_IS = {"strict_types": True, "unicode_errors": "surrogatepass"}
_pack = msgpack.Packer(**_AS_IT_IS).pack


class TooLargeError(UnserializableError):
    """A value has too many bytes, or contains itself."""

    def __init__(self) -> None:
        super().__init__(
            f"it has more than {MOST_BYTES >> 20} MB when each part is written as often"
            " as it is referred to"
        )


class RefusedError(UnserializableError):
    """A part of a value cannot be stored; ``what`` says which."""

    def __init__(self, what: str, place: str = "it") -> None:
        super().__init__(f"{place} has {what}{REMEDY}")
        self.what = what


def pack(value: object, *, most: float = math.inf, texts: bool = False) -> bytes:
    """Return a value as bytes, ``most`` of them.

    With ``texts`` every text becomes a plain string, as exporters write it. Raises
    :class:`UnserializableError`, with the type of the part that cannot be stored.
    """
    return Writer(most, texts=texts).pack(value)


def place_of(value: object, levels: int = 5) -> str:
    """Return where the first part is that cannot be stored, such as ``['a'][0]``."""
    parts: Iterable[tuple[object, object]] = ()
    if type(value) is dict:
        parts = value.items()
    elif type(value) in (list, tuple):
        parts = enumerate(value)  # type: ignore[arg-type]
    for key, part in parts:
        try:
            pack(part, most=MOST_BYTES)
        except UnserializableError:
            return f"[{key!r}]" + (place_of(part, levels - 1) if levels else "")
    return ""


def unpack(data: bytes) -> Any:  # noqa: ANN401 - any value
    """Return the value that was packed; raises :class:`UnserializableError`."""
    try:
        return _unpack(data)
    except Exception as error:  # of the data, or what is named in it
        raise UnserializableError(str(error) or type(error).__name__) from error


def _unpack(data: bytes) -> Any:  # noqa: ANN401 - any value
    return msgpack.unpackb(
        data,
        ext_hook=_restore,
        strict_map_key=False,
        unicode_errors="surrogatepass",
    )


class Writer:
    """Writes a value, of ``most`` bytes.

    A part to which it refers twice is written twice, and counts twice.
    """

    def __init__(self, most: float, *, texts: bool = False) -> None:
        self._most = self._left = most
        self._texts = texts
        self._level = 0

    def pack(self, value: object, nested: list[Any] | None = None) -> bytes:
        """Return a value as bytes.

        ``nested`` are the parts of it that may hold containers in each other (None:
        itself). Their own content is not measured: there is no more of it than the
        spider has.
        """
        if type(value) not in _PLAIN:
            value, nested = self._extended(value), []
        elif nested is None:
            nested = [value]
        packed = self._packed(value, plain=not nested or self._measure(nested))
        if len(packed) > self._most:
            raise TooLargeError
        return packed

    def _measure(self, level: list[Any], *, from_depth: int = 1) -> bool:
        """Refuse lists and dicts that are too large, or nested too deeply.

        Lists that share lists may have 2**100 elements, so each reference counts.
        Returns whether they hold nothing that msgpack does not know.
        """
        kinds = {*map(type, level)}
        plain = kinds <= _PLAIN
        for depth in range(MOST_LEVELS - self._level):
            if not kinds.isdisjoint(_BUFFERS):
                raise RefusedError("a value of type bytearray or memoryview")
            if kinds.isdisjoint(_CONTAINERS):
                return plain
            parts: list[Any] = []
            for container in level:
                kind = type(container)
                if kind is dict:
                    parts += container.values()
                    parts += container
                elif kind is list:
                    parts += container
            kinds = {*map(type, parts)}
            plain = plain and kinds <= _PLAIN
            if depth >= from_depth:
                texts = parts
                if not kinds <= _TEXTS:
                    texts = [part for part in parts if type(part) in _TEXTS]
                self._spend(len(parts) + sum(map(len, texts)))
            level = parts
        raise RefusedError(f"values nested more than {MOST_LEVELS} levels deep")

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLargeError

    def _packed(self, value: object, *, plain: bool) -> bytes:
        packed: bytes
        if plain:
            try:
                packed = _pack(value)
            except (TypeError, OverflowError):  # a long integer, or not measured
                pass
            else:
                return packed
        packed = msgpack.packb(value, default=self._extended, **_AS_IT_IS)
        return packed

    def _extended(self, value: Any) -> Any:  # noqa: ANN401 - anything
        """Return what stands for a value of a type that msgpack does not know."""
        kind = type(value)
        name = global_object_name(kind)
        try:
            if self._is_text(kind, name):
                return str(value)
            self._level += 1
            self._spend(EXTENSION)
            if kind in _KINDS:
                code, arguments, _ = _KINDS[kind]
                content = self._content([*arguments(value)])
            elif kind in _SETS:
                code = _SETS[kind]
                parts = sorted(self._content(part) for part in value)
                head: bytes = msgpack.Packer().pack_array_header(len(parts))
                content = b"".join([head, *parts])
            else:
                code, content = OBJECT, self._content(take_apart(value))
        except (RefusedError, TooLargeError):
            raise
        except Exception as error:  # of the value's own code
            raise RefusedError(f"a value of type {name} ({error})") from error
        self._level -= 1
        return msgpack.ExtType(code, content)

    def _content(self, value: Any) -> bytes:  # noqa: ANN401 - anything
        return self._packed(value, plain=self._measure([value], from_depth=0))

    def _is_text(self, kind: type, name: str) -> bool:
        if self._texts and issubclass(kind, str):
            return not issubclass(kind, enum.Enum)
        return name == _TEXT_OF_LXML


# Types beyond those of msgpack: the number, the arguments to make a value again, and
# what makes it of them.


def _parts_of_time(value: Any) -> Iterable[object]:  # noqa: ANN401 - a time
    """Return what a pickle would hold: the fields with the fold, and the zone, if any.

    The time is that of the clocks there, so it stays the same when the rules change.
    """
    parts: tuple[object, ...] = value.__reduce_ex__(4)[1]
    return parts


def _zone(key: Any) -> zoneinfo.ZoneInfo:  # noqa: ANN401 - of a store
    if not _ZONE_KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no time zone")
    return zoneinfo.ZoneInfo(key)


def _key_of(zone: zoneinfo.ZoneInfo) -> list[object]:
    if zone.key is None or not _ZONE_KEY.fullmatch(zone.key):
        raise ValueError(f"{zone!r} has no portable name")
    return [zone.key]


def _parts_of_defaultdict(value: Any) -> list[object]:  # noqa: ANN401 - a defaultdict
    factory = value.default_factory
    name = getattr(factory, "__name__", None)
    if name not in _FACTORIES or _FACTORIES[name] is not factory:
        raise TypeError(f"its values are made by {factory!r}")
    return [name, dict(value)]


def _defaultdict(name: str | None, content: dict[Any, Any]) -> object:
    return collections.defaultdict(_FACTORIES[name], content)


_KINDS: dict[
    type, tuple[int, Callable[[Any], Iterable[object]], Callable[..., object]]
] = {
    tuple: (1, iter, lambda *parts: parts),
    int: (INTEGER, lambda value: [hex(value), 16], int),  # beyond 64 bits
    datetime.date: (5, _parts_of_time, datetime.date),
    datetime.datetime: (6, _parts_of_time, datetime.datetime),
    datetime.timedelta: (
        7,
        lambda value: [value.days, value.seconds, value.microseconds],
        datetime.timedelta,
    ),
    decimal.Decimal: (8, lambda value: [str(value)], decimal.Decimal),
    uuid.UUID: (9, lambda value: [str(value)], uuid.UUID),
    collections.Counter: (11, lambda value: [dict(value)], collections.Counter),
    collections.OrderedDict: (12, lambda value: [dict(value)], collections.OrderedDict),
    collections.defaultdict: (13, _parts_of_defaultdict, _defaultdict),
    datetime.time: (14, _parts_of_time, datetime.time),
    zoneinfo.ZoneInfo: (15, _key_of, _zone),
    datetime.timezone: (16, lambda value: value.__getinitargs__(), datetime.timezone),
    collections.deque: (
        17,
        lambda value: [list(value), value.maxlen],
        collections.deque,
    ),
}
_SETS: dict[type, int] = {set: 2, frozenset: 3}
OBJECT = 10

_MAKE: dict[int, Callable[..., object]] = {
    2: lambda *parts: set(parts),
    3: lambda *parts: frozenset(parts),
    OBJECT: put_together,
    **{code: make for code, _, make in _KINDS.values()},
}

_reading = [0]
"""Levels of extensions that are being read."""


def _restore(code: int, data: bytes) -> object:
    if _reading[0] == MOST_LEVELS:
        raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
    _reading[0] += 1
    try:
        return _MAKE[code](*_unpack(data))
    finally:
        _reading[0] -= 1
