"""Values as msgpack, including types that msgpack does not know.

A value of an unknown type becomes an extension type, so that it comes back unchanged:
tuples, sets, times and the like, and objects of the project's own types
(:mod:`bloomdupe.crawl.requests.objects`). The content of an extension is msgpack, or a
text.

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

from bloomdupe.crawl.requests.layout import INTEGER
from bloomdupe.crawl.requests.objects import put_together, take_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


CANNOT = (TypeError, ValueError, OverflowError, RecursionError)
"""Exceptions of :func:`pack` for values that it cannot store."""

DEEPEST = 20
"""Levels in which :func:`culprit` looks: a value that contains itself has no end."""

MOST_LEVELS = 100
"""Greatest depth of objects, tuples and the like in each other."""

MOST_BYTES = 64 << 20
"""Bytes of one request. Larger requests would stop the reactor for seconds.

Objects of the project's own that contain each other count at each level, and a value
that msgpack has no type for, such as a tuple, counts for half a kilobyte more.
"""

_TUPLE, _SET, _FROZENSET = range(1, 4)
_DATE, _DATETIME, _TIMEDELTA = range(5, 8)
_DECIMAL, _UUID, _OBJECT = 8, 9, 10
_COUNTER, _ORDERED, _DEFAULTDICT = 11, 12, 13
_TIME, _IN_ZONE = 14, 15

_FACTORIES: dict[str | None, Any] = {
    kind.__name__: kind for kind in (int, float, str, list, set, dict, tuple)
} | {None: None}
"""Factories that a ``defaultdict`` may have, by the names that are stored."""

_TEXT_OF_LXML = "lxml.etree._ElementUnicodeResult"

_ZONES = (type(None), datetime.timezone)
"""Time zones that ISO 8601 can carry without loss."""
_ZONE_KEY = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
"""Keys of the IANA time zone database. No other text in a store is looked up there."""


def pack(value: object) -> bytes:
    """Return a value as bytes; raises an exception of ``CANNOT`` if it cannot."""
    return _packed(value, _extend)


def _packed(value: object, extend: Callable[[Any], object]) -> bytes:
    """Return a value as bytes; ``extend`` returns the extension for a value."""
    return msgpack.packb(  # type: ignore[no-any-return]
        value, default=extend, strict_types=True, unicode_errors="surrogatepass"
    )


def pack_request(value: list[Any]) -> bytes:
    """Return the elements of a request as bytes: ``MOST_BYTES`` of them at most.

    Raises as :func:`pack` does, and :class:`TooLargeError` before more than that is
    written. A part to which the value refers twice is written twice.
    """
    return _Bounded().pack(value)


def pack_in_order(value: object) -> bytes:
    """Return a value as bytes that are the same in each process: sets are sorted.

    Raises the errors of :func:`pack`.
    """
    return _packed(value, _extend_in_order)


def _extend_in_order(value: Any) -> object:  # noqa: ANN401 - anything
    if type(value) not in (set, frozenset):
        return _extend(value, pack_in_order)
    parts = sorted(map(pack_in_order, value))
    return msgpack.ExtType(_EXTENSIONS[type(value)][0], b"".join(parts))


def pack_flat(value: list[Any]) -> bytes:
    """Do the same faster for elements in which no part can be there twice."""
    packed = pack(value)
    if len(packed) > MOST_BYTES:
        raise TooLargeError
    return packed


class TooLargeError(ValueError):
    """A request has more than ``MOST_BYTES``, or contains itself."""

    def __init__(self) -> None:
        super().__init__(
            f"it has more than {MOST_BYTES >> 20} MB when each part is written as often"
            " as it is referred to"
        )


class _Bounded:
    """Packs one request."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def pack(self, value: object) -> bytes:
        """Return a value as bytes. Its containers are looked at before."""
        if expanded(value) > self._left:
            raise TooLargeError
        return self._pack_containers(value)

    def _pack_containers(self, value: object) -> bytes:
        packed = _packed(value, self._extend)
        if len(packed) > self._left:
            raise TooLargeError
        return packed

    def _extend(self, value: Any) -> object:  # noqa: ANN401 - anything
        if type(value) in _EXTENSIONS:
            return _extend(value, self._pack_containers)
        # The containers in an object have not been looked at.
        found: Any = _extend(value, self.pack)
        self._left -= NOT_PLAIN + len(getattr(found, "data", found))
        return found


def pack_item(value: object) -> bytes:
    """Return an item as bytes: every text as a plain string, as exporters write it.

    Raises the errors of :func:`pack`.
    """
    return _packed(value, _extend_of_item)


def _extend_of_item(value: Any) -> object:  # noqa: ANN401 - anything
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return str(value)
    return _extend(value, pack_item)


def unpack(data: bytes) -> Any:  # noqa: ANN401 - any value
    """Return the value passed to :func:`pack`; raises any exception for other data."""
    return msgpack.unpackb(
        data,
        ext_hook=_restore,
        strict_map_key=False,
        unicode_errors="surrogatepass",
    )


def culprit(
    value: object, place: str, fits: Callable[[object], bool]
) -> tuple[str, object]:
    """Return the place of the part that cannot be stored, and the part.

    ``place`` is the notation of the value itself; ``fits`` tells whether a part can be
    stored.
    """
    for _ in range(DEEPEST):
        found = next(((n, part) for n, part in _parts(value) if not fits(part)), None)
        if found is None:
            break
        name, value = found
        place += name
    return place, value


def _parts(value: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401 - anything
    kind = type(value)  # isinstance() may run the value's own code
    if issubclass(kind, dict):
        for key, part in value.items():
            yield f"[{key!r}]", part
    elif issubclass(kind, (list, tuple)):
        for index, part in enumerate(value):
            yield f"[{index}]", part
    elif issubclass(kind, (set, frozenset)):
        for part in value:
            yield "{}", part
    else:
        try:
            _, _, content = take_apart(value) or ("", "", None)
        except Exception:  # noqa: BLE001 - whatever the value's own code raises
            return
        if isinstance(content, dict):
            for name, part in content.items():
                yield f".{name}", part


def _factory_name(factory: object) -> str | None:
    name = getattr(factory, "__name__", None)
    if name not in _FACTORIES or _FACTORIES[name] is not factory:
        raise TypeError(f"cannot store a defaultdict whose values {factory!r} makes")
    return name


class _Deeper:
    """Counts levels of extensions in each other; there are 100 at most.

    Each level takes 40 kB of the C stack when it is read, and an overflow of that stack
    kills the process.
    """

    def __init__(self) -> None:
        self._levels = 0

    def __enter__(self) -> None:
        if self._levels == MOST_LEVELS:
            raise ValueError(f"it is nested more than {MOST_LEVELS} levels deep")
        self._levels += 1

    def __exit__(self, *_: object) -> None:
        self._levels -= 1


_deeper = _Deeper()


def _extend(value: Any, pack: Callable[[object], bytes] = pack) -> object:  # noqa: ANN401
    """Return the extension for a value; ``pack`` packs its content."""
    kind = type(value)
    if isinstance(value, str) and global_object_name(kind) == _TEXT_OF_LXML:
        return str(value)
    if kind in _TIMES and (type(value.tzinfo) not in _ZONES or value.fold):
        return msgpack.ExtType(_IN_ZONE, pack(_apart_from_zone(value)))
    if kind in _EXTENSIONS:
        code, extension = _EXTENSIONS[kind]
        with _deeper:
            return msgpack.ExtType(code, extension(value, pack))
    taken = take_apart(value)
    if taken is None:
        raise TypeError(f"cannot store {value!r} of type {global_object_name(kind)}")
    with _deeper:
        return msgpack.ExtType(_OBJECT, pack(taken))


def _apart_from_zone(value: datetime.datetime | datetime.time) -> list[Any]:
    """Return a time with its zone and its fold, which ISO 8601 does not carry.

    The time is that of the clocks there, so it stays the same when the rules change.
    """
    zone = value.tzinfo
    if type(zone) in _ZONES:
        return [value.replace(fold=0), None, value.fold]
    key = zone.key if type(zone) is zoneinfo.ZoneInfo else None
    if key is None or not _ZONE_KEY.fullmatch(key):
        raise TypeError(f"cannot store the time zone {zone!r}")
    return [value.replace(tzinfo=None, fold=0), key, value.fold]


def _in_zone(value: Any, key: str | None, fold: int) -> object:  # noqa: ANN401
    if type(value) not in _TIMES:
        raise TypeError("it is no time")
    if key is None:
        return value.replace(fold=fold)
    if not _ZONE_KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no time zone")
    return value.replace(tzinfo=zoneinfo.ZoneInfo(key), fold=fold)


_TIMES = (datetime.datetime, datetime.time)

_EXTENSIONS: dict[
    type, tuple[int, Callable[[Any, Callable[[object], bytes]], bytes]]
] = {
    tuple: (_TUPLE, lambda value, pack: pack(list(value))),
    # In the same order in each process: bytes tell start requests apart.
    set: (_SET, lambda value, pack: pack(sorted(value, key=pack))),
    frozenset: (_FROZENSET, lambda value, pack: pack(sorted(value, key=pack))),
    int: (INTEGER, lambda value, _: hex(value).encode()),  # beyond 64 bits
    datetime.date: (_DATE, lambda value, _: value.isoformat().encode()),
    datetime.datetime: (_DATETIME, lambda value, _: value.isoformat().encode()),
    datetime.time: (_TIME, lambda value, _: value.isoformat().encode()),
    datetime.timedelta: (
        _TIMEDELTA,
        lambda value, pack: pack([value.days, value.seconds, value.microseconds]),
    ),
    decimal.Decimal: (_DECIMAL, lambda value, _: str(value).encode()),
    uuid.UUID: (_UUID, lambda value, _: value.bytes),
    collections.Counter: (_COUNTER, lambda value, pack: pack(list(value.items()))),
    collections.OrderedDict: (_ORDERED, lambda value, pack: pack(list(value.items()))),
    collections.defaultdict: (
        _DEFAULTDICT,
        lambda value, pack: pack(
            [_factory_name(value.default_factory), list(value.items())]
        ),
    ),
}


def _restore(code: int, data: bytes) -> object:
    if code in _SEQUENCES:
        with _deeper:
            return _SEQUENCES[code](unpack(data))
    return _SCALARS[code](data)


_SEQUENCES: dict[int, Callable[[list[Any]], object]] = {
    _TUPLE: tuple,
    _SET: set,
    _FROZENSET: frozenset,
    _TIMEDELTA: lambda parts: datetime.timedelta(*parts),
    _OBJECT: lambda parts: put_together(*parts),
    _IN_ZONE: lambda parts: _in_zone(*parts),
    _COUNTER: lambda pairs: collections.Counter(dict(pairs)),
    _ORDERED: collections.OrderedDict,
    _DEFAULTDICT: lambda parts: collections.defaultdict(_FACTORIES[parts[0]], parts[1]),
}
_SCALARS: dict[int, Callable[[bytes], object]] = {
    INTEGER: lambda data: int(data, 16),
    _DATE: lambda data: datetime.date.fromisoformat(data.decode()),
    _DATETIME: lambda data: datetime.datetime.fromisoformat(data.decode()),
    _TIME: lambda data: datetime.time.fromisoformat(data.decode()),
    _DECIMAL: lambda data: decimal.Decimal(data.decode()),
    _UUID: lambda data: uuid.UUID(bytes=data),
}


_TEXTS = frozenset({str, bytes, bytearray})
_LISTS = frozenset({list, tuple, set, frozenset})
_MAPS = frozenset(
    {dict, collections.Counter, collections.OrderedDict, collections.defaultdict}
)
_CONTAINERS = _LISTS | _MAPS
_PLAIN_CONTAINERS = frozenset({list, dict})
_PLAIN = frozenset({int, float, bool, type(None)})

NOT_PLAIN = 512
"""Bytes for which a value counts that msgpack has no type for, besides its content.

It takes 10 us, as long as 10 kB of text.
"""


def expanded(container: object) -> float:
    """Return how many bytes a list, a dict or the like has at least, written out.

    Lists that share lists may have 2**100 elements, and take no memory before they are
    packed. So the size is worked out first, with a look at each container. Infinity if
    it contains itself. The content of objects is not looked at.
    """
    return _expanded(container, {})


def _expanded(container: Any, known: dict[int, float]) -> float:  # noqa: ANN401
    size: float = 1 if type(container) in _PLAIN_CONTAINERS else NOT_PLAIN
    parts = container
    if type(container) in _MAPS:
        parts = [*container, *container.values()]
    for part in parts:
        kind = type(part)
        if kind in _TEXTS:
            size += len(part)
        elif kind not in _CONTAINERS:
            size += 1 if kind in _PLAIN else NOT_PLAIN
        elif id(part) in known:
            size += known[id(part)]
        else:
            known[id(part)] = math.inf  # until all of it has been looked at
            known[id(part)] = found = _expanded(part, known)
            size += found
    return size
