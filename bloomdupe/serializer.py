"""Serializer: a request as bytes, with only what differs from a plain one.

A payload is a msgpack array, whose last elements are left out while they are nil:

======= ==========================================================================
element what
======= ==========================================================================
0       URL; a first character 1 to 4 stands for ``https://www.``, ``https://``,
        ``http://www.``, ``http://``, 0 for nothing
1       ``meta["depth"]``
2       Referer, if it is the last of the headers: how much of the URL it begins with
3       and the rest of it, if there is any
4       map from the numbers below to other attributes
======= ==========================================================================

====== ================ ==========================================================
number attribute        absent means
====== ================ ==========================================================
1      callback         ``Spider.parse``; 0 stands for ``NO_CALLBACK``
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
14     others           no further attributes (of a subclass)
====== ================ ==========================================================

Tuples, sets, times and the like are msgpack extension types, so that they come back
as what they were. Reading that runs nothing but the constructor of a subclass of
``Request``.

A payload that begins with ``P``, as no such array does, goes on with a pickle of the
list. It is written and read only where the user has asked for it: whoever can write
to the store could have any code run by it.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import pickle
import uuid
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]
from scrapy import Request
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider

__all__ = ["Serializer", "url_of"]

_ARRAYS = frozenset(range(0x91, 0x96))
"""First bytes of msgpack arrays of one to five elements."""
_PICKLE = b"P"

_HEADS = ("", "https://www.", "https://", "http://www.", "http://")

_CALLBACK, _ERRBACK, _CLASS, _OTHERS = 1, 2, 13, 14
_PLAIN = {
    3: "method",
    4: "headers",
    5: "body",
    6: "cookies",
    7: "meta",
    8: "encoding",
    9: "priority",
    10: "dont_filter",
    11: "flags",
    12: "cb_kwargs",
}
_METHOD, _HEADERS, _BODY, _COOKIES, _META, _ENCODING = range(3, 9)
_PRIORITY, _DONT_FILTER, _FLAGS, _CB_KWARGS = range(9, 13)

_CANNOT = (TypeError, ValueError, OverflowError, RecursionError)
"""What msgpack raises for values that it cannot carry."""


def url_of(payload: bytes) -> str:
    """Return the URL of a stored request, even of one that cannot be restored.

    For a message: of a URL that could break a line, characters are escaped.
    """
    try:
        url = str(_long(_unpack(payload)[0]))
    except Exception:  # noqa: BLE001 - whatever is wrong with it
        return f"{len(payload):,} bytes"
    return url if url.isprintable() else ascii(url)


class Serializer:
    """Writes and reads the requests of a spider.

    ``pickles`` also carries values that msgpack cannot, and reads them.
    """

    def __init__(self, spider: Spider, *, pickles: bool = False) -> None:
        self._spider = spider
        self._pickles = pickles
        self._names: dict[Any, str] = {}

    def dump(self, request: Request) -> bytes:
        """Return the request as bytes; raises :class:`UnserializableError`."""
        return self._dump(self._elements(request))

    def load(self, payload: bytes) -> Request:
        """Return the request; raises :class:`UnserializableError` with the reason."""
        elements = self._load(payload)
        try:
            return self._request(*elements)
        except Exception as error:  # of the classes and callbacks named in it
            raise UnserializableError(str(error) or type(error).__name__) from error

    def _load(self, payload: bytes) -> list[Any]:
        kind = payload[:1]
        try:
            if payload and payload[0] in _ARRAYS:
                return _unpack(payload)  # type: ignore[no-any-return]
            if kind == _PICKLE and self._pickles:
                return pickle.loads(payload[1:])  # type: ignore[no-any-return] # noqa: S301 - asked for
        except Exception as error:  # of whatever is in it
            raise UnserializableError(str(error) or type(error).__name__) from error
        if kind == _PICKLE:
            raise UnserializableError(
                'it is a pickle: set BLOOMDUPE_SERIALIZER = "pickle" if the store'
                " comes from nobody but you"
            )
        raise UnserializableError(f"it is of an unknown kind {kind!r}")

    def dump_value(self, value: object) -> bytes:
        """Return any value as bytes; raises :class:`UnserializableError`."""
        return self._dump([value])

    def load_value(self, data: bytes) -> Any:  # noqa: ANN401 - whatever it was
        """Return what :meth:`dump_value` was given; errors as in :meth:`load`."""
        (value,) = self._load(data)
        return value

    # Writing

    def _dump(self, elements: list[Any]) -> bytes:
        try:
            return _pack(elements)
        except _CANNOT as error:
            reason = error
        if not self._pickles:
            raise UnserializableError(
                f'{reason}; BLOOMDUPE_SERIALIZER = "pickle" stores such values, too'
            ) from reason
        try:
            return _PICKLE + pickle.dumps(elements, protocol=4)
        except Exception as error:  # whatever the objects' own code raises
            raise UnserializableError(f"cannot pickle it: {error}") from error

    def _elements(self, request: Request) -> list[Any]:
        url = request.url
        headers: dict[bytes, Any] = dict(request.headers)
        common = rest = None
        if headers and next(reversed(headers)) == b"Referer":
            referers = headers[b"Referer"]
            if len(referers) == 1:
                del headers[b"Referer"]
                common, rest = _cut(referers[0], url)
        meta = request.meta
        depth = meta.get("depth")
        if type(depth) is int:
            meta = {key: value for key, value in meta.items() if key != "depth"}
        else:
            depth = None
        others = self._others(request, headers, meta)
        elements = [_short(url), depth, common, rest or None, others or None]
        while elements[-1] is None:
            elements.pop()
        return elements

    def _others(
        self, request: Request, headers: dict[bytes, Any], meta: dict[Any, Any]
    ) -> dict[int, Any]:
        encoding = request.encoding
        method = request.method
        values = {
            _METHOD: None if method == "GET" else method,
            _HEADERS: headers,
            _BODY: request.body,
            _COOKIES: request.cookies,
            _META: meta,
            _ENCODING: None if encoding == "utf-8" else encoding,
            _PRIORITY: request.priority,
            _DONT_FILTER: request.dont_filter,
            _FLAGS: request.flags,
            _CB_KWARGS: request.cb_kwargs,
        }
        others = {number: value for number, value in values.items() if value}
        if request.callback is not None:
            others[_CALLBACK] = self._name_of(request.callback)
        if request.errback is not None:
            others[_ERRBACK] = self._name_of(request.errback)
        if type(request) is not Request:
            others[_CLASS] = global_object_name(type(request))
            others[_OTHERS] = {
                name: getattr(request, name)
                for name in request.attributes
                if name not in Request.attributes
            }
        return others

    def _name_of(self, function: Callable[..., Any]) -> str | int:
        """Return the name of a method of the spider."""
        if function is NO_CALLBACK:
            return 0
        plain = getattr(function, "__func__", None)
        if plain is not None and getattr(function, "__self__", None) is self._spider:
            name = self._names.get(plain)
            if name is not None:
                return name
            for name, method in inspect.getmembers(self._spider, inspect.ismethod):
                if method.__func__ is plain:
                    self._names[plain] = name
                    return name
        raise UnserializableError(f"{function} is not a method of {self._spider}")

    # Reading

    def _request(
        self,
        url: str,
        depth: int | None = None,
        common: int | None = None,
        rest: bytes | None = None,
        others: dict[int, Any] | None = None,
    ) -> Request:
        others = others or {}
        url = _long(url)
        class_: type[Request] = Request
        if _CLASS in others:
            class_ = load_object(others[_CLASS])
            if not (isinstance(class_, type) and issubclass(class_, Request)):
                raise TypeError(f"{others[_CLASS]} is not a subclass of Request")
        values = {
            name: others[number] for number, name in _PLAIN.items() if number in others
        }
        for number, name in ((_CALLBACK, "callback"), (_ERRBACK, "errback")):
            if number in others:
                values[name] = self._method(others[number])
        if depth is not None:
            values["meta"] = {"depth": depth, **values.get("meta", {})}
        if common is not None:
            referer = url[:common].encode("latin-1") + (rest or b"")
            values["headers"] = {**values.get("headers", {}), b"Referer": [referer]}
        return class_(url=url, **values, **others.get(_OTHERS, {}))

    def _method(self, name: str | int) -> Callable[..., Any]:
        if name == 0:
            return NO_CALLBACK
        method = getattr(self._spider, str(name), None)
        if not callable(method):
            raise TypeError(f"the spider has no method {name!r} any more")
        return method  # type: ignore[no-any-return]


def _short(url: str) -> str:
    """Replace the beginning of a URL by one character, if it is among the usual."""
    for number in range(1, len(_HEADS)):
        if url.startswith(_HEADS[number]):
            return chr(number) + url[len(_HEADS[number]) :]
    return "\0" + url if url[:1] < chr(len(_HEADS)) else url


def _long(url: str) -> str:
    """Return the URL that was made short."""
    first = ord(url[0])
    return _HEADS[first] + url[1:] if first < len(_HEADS) else url


def _cut(referer: bytes, url: str) -> tuple[int, bytes]:
    """Return how many characters both begin with, up to a slash, and the rest."""
    text = referer.decode("latin-1")
    common = len(text)
    while common and not url.startswith(text[:common]):
        common = text.rfind("/", 0, common - 1) + 1
    return common, referer[common:]


# Values that msgpack does not know

_TUPLE, _SET, _FROZENSET, _INTEGER, _DATE, _DATETIME, _TIMEDELTA = range(1, 8)
_DECIMAL, _UUID = 8, 9

_ZONES = (type(None), datetime.timezone)
"""Time zones that ISO 8601 can carry without loss."""


def _extend(value: Any) -> object:  # noqa: ANN401 - anything
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return str(value)  # such as lxml's texts, which know where they come from
    kind = type(value)
    if kind is datetime.datetime and type(value.tzinfo) not in _ZONES:
        raise TypeError(f"cannot store the time zone {value.tzinfo!r}")
    if kind not in _EXTENSIONS:
        raise TypeError(f"cannot store {value!r} of type {global_object_name(kind)}")
    code, pack = _EXTENSIONS[kind]
    return msgpack.ExtType(code, pack(value))


_EXTENSIONS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    tuple: (_TUPLE, lambda value: _pack(list(value))),
    set: (_SET, lambda value: _pack(list(value))),
    frozenset: (_FROZENSET, lambda value: _pack(list(value))),
    int: (_INTEGER, lambda value: hex(value).encode()),  # beyond 64 bits
    datetime.date: (_DATE, lambda value: value.isoformat().encode()),
    datetime.datetime: (_DATETIME, lambda value: value.isoformat().encode()),
    datetime.timedelta: (
        _TIMEDELTA,
        lambda value: _pack([value.days, value.seconds, value.microseconds]),
    ),
    decimal.Decimal: (_DECIMAL, lambda value: str(value).encode()),
    uuid.UUID: (_UUID, lambda value: value.bytes),
}


def _restore(code: int, data: bytes) -> object:
    if code in _SEQUENCES:
        return _SEQUENCES[code](_unpack(data))
    return _SCALARS[code](data)


_SEQUENCES: dict[int, Callable[[list[Any]], object]] = {
    _TUPLE: tuple,
    _SET: set,
    _FROZENSET: frozenset,
    _TIMEDELTA: lambda parts: datetime.timedelta(*parts),
}
_SCALARS: dict[int, Callable[[bytes], object]] = {
    _INTEGER: lambda data: int(data, 16),
    _DATE: lambda data: datetime.date.fromisoformat(data.decode()),
    _DATETIME: lambda data: datetime.datetime.fromisoformat(data.decode()),
    _DECIMAL: lambda data: decimal.Decimal(data.decode()),
    _UUID: lambda data: uuid.UUID(bytes=data),
}


def _pack(value: object) -> bytes:
    return msgpack.packb(  # type: ignore[no-any-return]
        value, default=_extend, strict_types=True, unicode_errors="surrogatepass"
    )


def _unpack(data: bytes) -> Any:  # noqa: ANN401 - whatever was packed
    return msgpack.unpackb(
        data,
        ext_hook=_restore,
        strict_map_key=False,
        unicode_errors="surrogatepass",
    )
