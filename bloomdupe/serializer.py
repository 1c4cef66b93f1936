"""Serializer: a request as bytes, with only what differs from a plain one.

The first byte says how the rest is written: ``M`` is msgpack, ``P`` a pickle. A
msgpack payload is a map from the numbers below to values. Tuples, sets, times and
the like are msgpack extension types, so that they come back as what they were.
Reading ``M`` runs nothing but the constructor of a subclass of ``Request``. ``P`` is
written and read only where the user has asked for it: whoever can write to the
store could have any code run by it.

====== ================ ==========================================================
number attribute        absent means
====== ================ ==========================================================
0      url              (always there)
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
15     headers, the     no Referer at their end; else how much of the URL it begins
       last of them     with, and the rest of it
16     meta["depth"]    no depth in it
====== ================ ==========================================================

The last two are in nearly every request of a crawl.
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

_URL, _CALLBACK, _ERRBACK, _CLASS, _OTHERS, _REFERER, _DEPTH = 0, 1, 2, 13, 14, 15, 16
_PLAIN = {
    _URL: "url",
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
    """Return the URL of a stored request, even of one that cannot be restored."""
    try:
        fields = _unpack(payload[1:]) if payload[:1] == b"M" else {}
    except _CANNOT:
        fields = {}
    url = fields.get(_URL) if isinstance(fields, dict) else None
    return f"{len(payload):,} bytes" if url is None else str(url)


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
        fields = self._fields(request)
        try:
            return b"M" + _pack(fields)
        except _CANNOT as error:
            reason = error
        if not self._pickles:
            raise UnserializableError(
                f'{reason}; BLOOMDUPE_SERIALIZER = "pickle" stores such values, too'
            ) from reason
        try:
            return b"P" + pickle.dumps(fields, protocol=4)
        except Exception as error:  # whatever the objects' own code raises
            raise UnserializableError(f"cannot pickle it: {error}") from error

    def load(self, payload: bytes) -> Request:
        """Return the request; raises :class:`UnserializableError` with the reason."""
        kind = payload[:1]
        try:
            if kind == b"M":
                return self._request(_unpack(payload[1:]))
            if kind == b"P" and self._pickles:
                return self._request(pickle.loads(payload[1:]))  # noqa: S301 - asked for
        except Exception as error:  # of the classes and callbacks named in it
            raise UnserializableError(str(error) or type(error).__name__) from error
        if kind == b"P":
            raise UnserializableError(
                'it is a pickle: set BLOOMDUPE_SERIALIZER = "pickle" if the store'
                " comes from nobody but you"
            )
        raise UnserializableError(f"it is of an unknown kind {kind!r}")

    # Writing

    def _fields(self, request: Request) -> dict[int, Any]:
        encoding = request.encoding
        method = request.method
        url = request.url
        headers: dict[bytes, Any] = dict(request.headers)
        meta = request.meta
        fields: dict[int, Any] = {_URL: url}
        if headers and next(reversed(headers)) == b"Referer":
            referers = headers[b"Referer"]
            if len(referers) == 1:
                del headers[b"Referer"]
                fields[_REFERER] = _cut(referers[0], url)
        depth = meta.get("depth")
        if type(depth) is int:
            fields[_DEPTH] = depth
            meta = {key: value for key, value in meta.items() if key != "depth"}
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
        if request.callback is not None:
            fields[_CALLBACK] = self._name_of(request.callback)
        if request.errback is not None:
            fields[_ERRBACK] = self._name_of(request.errback)
        fields.update({number: value for number, value in values.items() if value})
        if type(request) is not Request:
            fields[_CLASS] = global_object_name(type(request))
            fields[_OTHERS] = {
                name: getattr(request, name)
                for name in request.attributes
                if name not in Request.attributes
            }
        return fields

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

    def _request(self, fields: dict[int, Any]) -> Request:
        class_: type[Request] = Request
        if _CLASS in fields:
            class_ = load_object(fields[_CLASS])
            if not (isinstance(class_, type) and issubclass(class_, Request)):
                raise TypeError(f"{fields[_CLASS]} is not a subclass of Request")
        values = {
            name: fields[number] for number, name in _PLAIN.items() if number in fields
        }
        for number, name in ((_CALLBACK, "callback"), (_ERRBACK, "errback")):
            if number in fields:
                values[name] = self._method(fields[number])
        if _DEPTH in fields:
            values["meta"] = {"depth": fields[_DEPTH], **values.get("meta", {})}
        if _REFERER in fields:
            common, rest = fields[_REFERER]
            referer = fields[_URL][:common].encode("latin-1") + rest
            values["headers"] = {**values.get("headers", {}), b"Referer": [referer]}
        return class_(**values, **fields.get(_OTHERS, {}))

    def _method(self, name: str | int) -> Callable[..., Any]:
        if name == 0:
            return NO_CALLBACK
        method = getattr(self._spider, str(name), None)
        if not callable(method):
            raise TypeError(f"the spider has no method {name!r} any more")
        return method  # type: ignore[no-any-return]


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
