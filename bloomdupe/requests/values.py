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
from itertools import chain
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

CONTAINER, EXTENSION = 64, 512
"""Bytes for which a list or dictionary, and any other type, count beside their content.

It takes as long to write one as to write so many bytes of text.
"""

REMEDY = "; plain values, dataclasses and items can be stored"
LONGEST_PLACE = 200
"""Characters of a place that are shown: a value that contains itself has no end."""

_LEAVES = frozenset({str, bytes, int, float, bool, type(None)})
_TEXTS = frozenset({str, bytes})
_CONTAINERS = frozenset({list, dict})
_PLAIN = _LEAVES | _CONTAINERS
_TEXT_OF_LXML = "lxml.etree._ElementUnicodeResult"

_ZONE_KEY = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
"""Keys of the IANA time zone database. No other text in a store is looked up there."""

_FACTORIES: dict[str | None, Any] = {
    kind.__name__: kind for kind in (int, float, str, list, set, dict, tuple)
} | {None: None}
"""Factories that a ``defaultdict`` may have, by the names that are stored."""

_packer = msgpack.Packer(unicode_errors="surrogatepass")
_pack, _list_of, _map_of = (
    _packer.pack,
    _packer.pack_array_header,
    _packer.pack_map_header,
)


class TooLargeError(UnserializableError):
    """A value has too many bytes, or contains itself."""

    def __init__(self) -> None:
        super().__init__(
            f"it has more than {MOST_BYTES >> 20} MB when each part is written as often"
            " as it is referred to"
        )


def pack(value: object, *, most: float = math.inf, texts: bool = False) -> bytes:
    """Return a value as bytes, ``most`` of them.

    With ``texts`` every text becomes a plain string, as exporters write it. Raises
    :class:`UnserializableError` with the place of the part that cannot be stored.
    """
    return Writer(most, texts=texts).value("it", value)


def pack_item(item: object) -> bytes:
    """Return an item as bytes; all texts in it become plain strings.

    Raises :class:`UnserializableError`.
    """
    return pack(item, texts=True)


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


class _Refused(Exception):  # noqa: N818 - it becomes an UnserializableError
    """A part that cannot be stored; its place is put together on the way up."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.place = ""


class Writer:
    """Writes the values of a request, of ``most`` bytes together.

    A part to which they refer twice is written twice, and counts twice.
    """

    def __init__(self, most: float, *, texts: bool = False) -> None:
        self._left = most
        self._texts = texts
        self._level = 0

    def value(self, name: str, value: object) -> bytes:
        """Return a value as bytes; its ``name`` is for the message of the error."""
        try:
            return self._write(value)
        except _Refused as refused:
            place = name + refused.place
            if len(place) > LONGEST_PLACE:
                place = f"{place[:LONGEST_PLACE]}..."
            raise UnserializableError(f"{place} is {refused}{REMEDY}") from refused

    def request(self, first: list[Any], others: dict[int, bytes]) -> bytes:
        """Return the ``first`` elements of a request and all others as bytes."""
        written = [_list_of(len(first) + 1), *map(self._write, first)]
        written.append(_map_of(len(others)))
        for number, part in others.items():
            written += _pack(number), part
        return b"".join(written)

    def flat(self, value: Any) -> bytes:  # noqa: ANN401 - see below
        """Return a value as bytes in which no container can be there twice.

        Raises :class:`OverflowError` for an integer beyond 64 bits.
        """
        packed: bytes = _pack(value)
        self._spend(len(packed))
        return packed

    def is_plain(self, level: list[Any]) -> bool:
        """Whether lists and dicts hold only such and leaves, and are not too large.

        That is most of what spiders store, and C writes it. Lists that share lists may
        have 2**100 elements, so each reference counts. Only the content of the first
        ``level`` itself is not measured: there is no more of it than the spider has.
        """
        size = 0
        for depth in range(MOST_LEVELS - self._level):
            parts: list[Any] = []
            for container in level:
                if type(container) is dict:
                    parts += container.values()
                parts += container
            kinds = {*map(type, parts)}
            if not kinds <= _PLAIN:
                return False
            if depth:
                texts = parts
                if not kinds <= _TEXTS:
                    texts = [part for part in parts if type(part) in _TEXTS]
                size += len(parts) + sum(map(len, texts))
                if size > self._left:
                    return False
            if kinds <= _LEAVES:
                return True
            level = [part for part in parts if type(part) in _CONTAINERS]
        return False

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLargeError

    def _write(self, value: Any, places: str = "[{!r}]") -> bytes:  # noqa: ANN401
        """Return a value as bytes; ``places`` shows where the values of a dict are."""
        kind = type(value)
        is_container = kind in _CONTAINERS
        if kind in _LEAVES or (is_container and self.is_plain([value])):
            try:
                return self.flat(value)
            except OverflowError:
                pass
        self._level += 1
        if self._level > MOST_LEVELS:
            raise _Refused(f"nested more than {MOST_LEVELS} levels deep")
        self._spend(CONTAINER if is_container else EXTENSION)
        if kind is dict:
            written = self._map(value, places)
        elif kind is list:
            written = self._list(value)
        else:
            written = self._extension(value)
        self._level -= 1
        return written

    def _list(self, parts: Iterable[object]) -> bytes:
        written = self._parts(enumerate(parts), "[{}]")
        return b"".join([_list_of(len(written)), *written])

    def _map(self, parts: dict[Any, object], places: str) -> bytes:
        keys = self._parts(((key, key) for key in parts), places)
        values = self._parts(parts.items(), places)
        pairs = chain.from_iterable(zip(keys, values, strict=True))
        return b"".join([_map_of(len(keys)), *pairs])

    def _parts(
        self, parts: Iterable[tuple[object, object]], places: str
    ) -> list[bytes]:
        written: list[bytes] = []
        name: object = None
        try:
            for name, part in parts:  # noqa: B007 - it is shown
                if type(part) in _TEXTS:
                    written.append(self.flat(part))
                else:
                    written.append(self._write(part))
        except _Refused as refused:
            refused.place = places.format(name) + refused.place
            raise
        return written

    def _extension(self, value: Any) -> bytes:  # noqa: ANN401 - anything
        kind = type(value)
        name = global_object_name(kind)
        try:
            if self._is_text(kind, name):
                return self.flat(str(value))
            if kind in _KINDS:
                code, arguments, _ = _KINDS[kind]
                content = self._list(arguments(value))
            elif kind in _SETS:
                code = _SETS[kind]
                written = self._parts((("", part) for part in value), "{{}}{}")
                content = b"".join([_list_of(len(written)), *sorted(written)])
            else:
                code, content = OBJECT, self._object(value)
        except (_Refused, TooLargeError):
            raise
        except Exception as error:  # of the value's own code
            raise _Refused(f"of type {name}: {error}") from error
        extension: bytes = _pack(msgpack.ExtType(code, content))
        return extension

    def _is_text(self, kind: type, name: str) -> bool:
        if self._texts and issubclass(kind, str):
            return not issubclass(kind, enum.Enum)
        return name == _TEXT_OF_LXML

    def _object(self, value: object) -> bytes:
        taken = take_apart(value)
        if taken is None:
            raise _Refused(f"of type {global_object_name(type(value))}")
        kind, name, content = taken
        written = self._write(content, ".{}")
        return b"".join([_list_of(3), _pack(kind), _pack(name), written])


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
    bytearray: (17, lambda value: [bytes(value)], bytearray),
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
