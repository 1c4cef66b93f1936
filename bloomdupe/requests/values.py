"""Values as msgpack, including types that msgpack does not know.

A value of an unknown type becomes an extension type, so that it comes back unchanged:
tuples, sets, times and the like, and objects of the project's own types
(:mod:`bloomdupe.requests.objects`). The content of an extension is a text, or a list of
its parts in msgpack.

Equal values have equal bytes in each process, so a digest of the bytes distinguishes
values: sets are sorted, and dictionaries keep their order.

A list, dict or object to which a value refers twice is written once, so that it is one
object again when it comes back: a change is seen in both places.

A value of a class that derives from a builtin type is refused, because it would come
back as a plain value. Strings of lxml, which know their place in a tree, become plain
strings: that tree is gone.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import math
import re
import uuid
import zoneinfo
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]
from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError
from bloomdupe.requests.layout import unpacked
from bloomdupe.requests.objects import fields_in, put_together, take_apart

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
_BUFFERS = frozenset({bytearray, memoryview})
"""Types that msgpack would write as bytes, so that they would come back as bytes."""
_TEXT_OF_LXML = "lxml.etree._ElementUnicodeResult"

_ZONE_KEY = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
"""Keys of the IANA time zone database."""


class TooLargeError(UnserializableError):
    """A value has too many bytes, or contains itself."""

    def __init__(self) -> None:
        super().__init__(
            f"it has more than {MOST_BYTES >> 20} MB when each part is counted as often"
            " as it is referred to"
        )


class RefusedError(UnserializableError):
    """A part of a value cannot be stored; ``what`` says which."""

    def __init__(self, what: str, place: str = "it") -> None:
        super().__init__(f"{place} has {what}{REMEDY}")
        self.what = what


def place_of(value: object, levels: int = 5) -> str:
    """Return where the first part is that cannot be stored, such as ``['a'][0]``."""
    parts: Iterable[tuple[object, object]] = ()
    if type(value) is dict:
        parts = value.items()
    elif type(value) in (list, tuple):
        parts = enumerate(value)  # type: ignore[arg-type]
    for key, part in parts:
        try:
            pack_for_request(part)
        except UnserializableError:
            return f"[{key!r}]" + (place_of(part, levels - 1) if levels else "")
    return ""


def _as_plain(value: Any) -> Any:
    """Return what a feed gets for a value that could not be read again."""
    from itemadapter import ItemAdapter  # as in objects._made()

    times: tuple[Any, ...] = (datetime.datetime, datetime.date, datetime.time)
    for kind in times:  # of a derived type, or a zone without a name
        if isinstance(value, kind):
            with suppress(ValueError):
                return kind.fromisoformat(kind.isoformat(value))
    if ItemAdapter.is_item(value):  # of a class without a name
        return dict(ItemAdapter(value))
    return next(make for kind, make in _PLAIN if isinstance(value, kind))(value)


_PLAIN: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (str, str.__str__),  # as exporters write it; str() may be a member's name
    ((list, tuple, set, frozenset), list),
    (int, int),
    (float, float),
    (bytes, bytes),
    (object, str),
)
"""What makes a plain value of one of a derived type."""


class _Twice:
    """Stands for a part to which a value refers twice."""

    def __init__(self, one: object) -> None:
        self.one = one


class Writer:
    """Writes values, of ``most`` bytes each.

    A part to which a value refers twice counts twice. With ``plain``, it is written
    twice, too; lists may be nested deeper, and a part that could not be read again
    becomes a plain value or a text, as in XML.
    """

    def __init__(self, most: float = math.inf, *, plain: bool = False) -> None:
        self._most = self._left = most
        self._plain = plain
        self._lists = 4 if plain else 1
        """How many lists in each other count as one level."""
        self._replaced = False
        """Whether a part has become a plain value. What holds it is read as a check."""
        self._level = 0
        self._packers: list[Callable[[object], bytes]] = []
        """Of values, of the contents of extensions in them, of those in these."""
        self._met: dict[int, object] = {}
        """Lists, dicts and objects of the value, by id; also those that are made while
        it is written, so that no other object gets their ids."""
        self._twice: set[int] = set()
        """Those to which it refers twice."""
        self._numbers: dict[int, int | None] = {}
        """The same while it is written again, each with its number once written."""
        self._written = 0

    def pack(self, value: object, nested: list[Any] | None = None) -> bytes:
        """Return a value as bytes.

        ``nested`` are the parts of it that may hold containers in each other (None:
        itself). Their own content is not measured: there is no more of it than the
        spider has. Raises :class:`UnserializableError`, with the type of the part that
        cannot be stored.
        """
        nested = [value] if nested is None else nested
        try:
            packed = self._begin(value, nested)
            if self._twice and not self._plain:
                self._numbers, self._written = dict.fromkeys(self._twice), 0
                packed = self._begin(value, nested)
            if self._replaced:
                unpack(packed)
        finally:
            if self._met:
                self._met, self._twice, self._numbers = {}, set(), {}
        if len(packed) > self._most:
            raise TooLargeError
        return packed

    def _begin(self, value: object, nested: list[Any]) -> bytes:
        self._left, self._level, self._replaced = self._most, 0, False
        return self._packed(value, nested)

    def _packed(self, value: object, nested: list[Any]) -> bytes:
        self._measure(nested)
        return self._bytes_of(self._marked(value) if self._numbers else value)

    def _bytes_of(self, value: object) -> bytes:
        while self._level >= len(self._packers):
            packer = msgpack.Packer(
                default=self._extended,
                strict_types=True,
                unicode_errors="surrogatepass",
            )
            self._packers.append(packer.pack)
        return self._packers[self._level](value)

    def _measure(self, level: list[Any]) -> None:
        """Refuse lists and dicts that are too large, or nested too deeply.

        Lists that share lists may have 2**100 elements, so each reference counts.
        """
        kinds = {*map(type, level)}
        for depth in range(self._level * self._lists, MOST_LEVELS * self._lists):
            if not kinds.isdisjoint(_BUFFERS):
                raise RefusedError("a value of type bytearray or memoryview")
            if kinds.isdisjoint(_CONTAINERS):
                return
            parts: list[Any] = []
            for container in level:
                kind = type(container)
                if kind is dict:
                    parts += container.values()
                    parts += container
                elif kind is list:
                    parts += container
                else:
                    continue
                self._meet(container)
            kinds = {*map(type, parts)}
            if depth:
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

    def _meet(self, one: object) -> None:
        if id(one) in self._met:
            self._twice.add(id(one))
        self._met[id(one)] = one

    def _marked(self, value: object) -> object:
        """Return a value with marks in the place of what is referred to twice."""
        if id(value) in self._numbers:
            return _Twice(value)
        return self._with_marks(value)

    def _with_marks(self, value: object) -> object:
        if type(value) is dict:
            return {key: self._marked(part) for key, part in value.items()}
        if type(value) is list:
            return [*map(self._marked, value)]
        return value

    def _extended(self, value: Any) -> Any:
        """Return a value of a type that msgpack does not know as one that it knows."""
        if type(value) is not _Twice:
            return self._taken_apart(value)
        one = value.one
        number = self._numbers[id(one)]
        if number is not None:
            return msgpack.ExtType(AGAIN, msgpack.packb([number]))
        self._level += 1
        content = self._bytes_of([self._with_marks(one)])
        self._level -= 1
        self._numbers[id(one)] = self._written
        self._written += 1
        return msgpack.ExtType(TWICE, content)

    def _taken_apart(self, value: Any) -> Any:
        kind, level = type(value), self._level
        name = global_object_name(kind)
        is_text = self._plain and issubclass(kind, str) and not issubclass(kind, Enum)
        try:
            if is_text or name == _TEXT_OF_LXML:
                return str.__str__(value)
            self._level += 1
            self._spend(EXTENSION)
            code, parts_of = _KINDS.get(kind, (OBJECT, take_apart))
            is_object = code == OBJECT and not issubclass(kind, Enum)
            if is_object or kind.__hash__ is None:  # it may change
                self._meet(value)
            if kind in _SETS:
                # They are sorted, so no reference may lead into them, or out of them.
                numbers, self._numbers = self._numbers, {}
                parts = sorted(self._packed(part, [part]) for part in value)
                self._numbers = numbers
                head: bytes = msgpack.Packer().pack_array_header(len(parts))
                content = b"".join([head, *parts])
            else:
                parts = [*parts_of(value)]
                content = self._packed(parts, [parts])
            if self._replaced:
                restore([], code, content)
        except (RefusedError, TooLargeError):
            raise
        except Exception as error:  # of the value's own code
            if self._plain:
                self._level, self._replaced = level, True
                with suppress(Exception):
                    plain = _as_plain(value)
                    return self._taken_apart(plain) if type(plain) in _KINDS else plain
            raise RefusedError(f"a value of type {name} ({error})") from error
        self._level -= 1
        return msgpack.ExtType(code, content)


pack = Writer().pack
pack_item = Writer(plain=True).pack
pack_for_request = Writer(MOST_BYTES).pack


# Types beyond those of msgpack: the number, what takes a value apart into arguments,
# and what makes it of them, if it is not the type.


def _reduced(value: Any) -> Iterable[object]:
    """Return the arguments that a pickle would hold.

    A time is that of the clocks there, so it stays the same when the rules change.
    """
    arguments: tuple[object, ...] = value.__reduce_ex__(4)[1]
    return arguments


def _zone(key: str) -> zoneinfo.ZoneInfo:
    """Return a time zone. No other text in a store is looked up as one."""
    if not _ZONE_KEY.fullmatch(str(key)):
        raise ValueError(f"{key!r} is no time zone")
    return zoneinfo.ZoneInfo(key)


_FACTORIES = (None, int, float, str, list, set, dict, tuple)
"""Factories that a ``defaultdict`` may have. Its number is stored."""
_NUMBERS: dict[Any, int] = {one: number for number, one in enumerate(_FACTORIES)}

OBJECT = 10
TWICE, AGAIN = 18, 19
"""Of a part that is referred to again; of the number of such a part."""
_SETS = frozenset({set, frozenset})
_KINDS: dict[type, tuple[int, Callable[[Any], Iterable[object]]]] = {
    tuple: (1, iter),
    set: (2, iter),
    frozenset: (3, iter),
    int: (4, lambda value: [hex(value), 16]),  # beyond 64 bits
    datetime.date: (5, _reduced),
    datetime.datetime: (6, _reduced),
    datetime.timedelta: (7, _reduced),
    decimal.Decimal: (8, _reduced),
    uuid.UUID: (9, lambda value: [str(value)]),
    collections.Counter: (11, _reduced),
    collections.OrderedDict: (12, lambda value: [dict(value)]),
    collections.defaultdict: (
        13,
        lambda value: [_NUMBERS[value.default_factory], dict(value)],
    ),
    datetime.time: (14, _reduced),
    zoneinfo.ZoneInfo: (15, lambda value: [_zone(value.key).key]),
    datetime.timezone: (16, _reduced),
    collections.deque: (17, lambda value: [list(value), value.maxlen]),
}
_MAKE: dict[int, Callable[..., object]] = {
    **{code: kind for kind, (code, _) in _KINDS.items()},
    1: lambda *parts: parts,
    2: lambda *parts: {*parts},
    3: lambda *parts: frozenset(parts),
    13: lambda number, content: collections.defaultdict(_FACTORIES[number], content),
    15: _zone,
}


def restore(
    known: list[object],
    code: int,
    data: bytes,
    level: int = 1,
    *,
    put: Callable[..., object] = put_together,
) -> object:
    """Return the value of an extension.

    ``known`` are those parts of the whole that are referred to again; ``put`` puts
    objects together.
    """
    if level > MOST_LEVELS:
        raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
    parts = unpacked(data, partial(restore, known, level=level + 1, put=put))
    if code == AGAIN:
        return known[parts[0]]
    if code == TWICE:
        known += parts
        return parts[0]
    return (put if code == OBJECT else _MAKE[code])(*parts)


def unpack(data: bytes, *, exported: bool = False) -> Any:
    """Return what was packed; raises :class:`UnserializableError`.

    ``exported`` as in :func:`~bloomdupe.requests.objects.put_together`.
    """
    put = partial(put_together, exported=exported)
    return unpacked(data, partial(restore, [], put=put))


def unpack_item(data: bytes, changed: Callable[[str, Exception], None]) -> Any:
    """Return an item that :func:`pack_item` has packed.

    An object becomes a dictionary of its fields if its class is not here, or has
    changed; ``changed`` gets the name of the class, and the error. All of them but the
    item become texts if one is in a set, or a key.
    """
    fields: Any = None
    as_texts = False

    def put(name: str, *content: Any) -> object:
        nonlocal fields
        try:
            return put_together(name, *content, exported=True)
        except UnserializableError as error:
            changed(name, error)
            fields = fields_in(content[0])
            return str(fields) if as_texts else fields

    try:
        return unpacked(data, partial(restore, [], put=put))
    except UnserializableError:
        as_texts = True
        found = unpacked(data, partial(restore, [], put=put))
        return fields if type(found) is str else found  # the item is the last of them
