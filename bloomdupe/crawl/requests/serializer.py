"""Serializer: a request as bytes; a plain request is the default of each part.

A payload is a msgpack array. Its last elements are left out while they are nil:

======= ==========================================================================
element content
======= ==========================================================================
0       URL; a first character 1 to 4 means ``https://www.``, ``https://``,
        ``http://www.``, ``http://``, 0 means no prefix
1       ``meta["depth"]``
2       Referer, if it is the last of the headers: length of its common prefix with
        the URL
3       the rest of the Referer, if there is any
4       map from the numbers below to the remaining attributes
5       visits of a page that comes again, and the key of unfinished work that the
        request continues: see :class:`bloomdupe.crawl.requests.visits.Visit`
======= ==========================================================================

====== ================ ==========================================================
number attribute        absent means
====== ================ ==========================================================
1      callback         ``Spider.parse``; 0 means ``NO_CALLBACK``
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
14     others           none (attributes that a subclass has added)
15     extras           no state besides its ``attributes``
16     partials         callback and errback are methods; else a map from 1 and 2 to
                        method, list of arguments and map of keywords
====== ================ ==========================================================

The format of values is that of :mod:`bloomdupe.crawl.requests.values`. Reading a
payload imports nothing, and runs only the constructor of a subclass of ``Request`` that
is loaded already. A callback must be a method that the spider's own classes add to
``Spider`` or override, or a partial of one. The constructor gets
all attributes, also those that are absent here, because a subclass may have different
defaults. If it still makes a different request, the request is refused when it is to be
written.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgpack  # type: ignore[import-untyped]
from scrapy import Request
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.requests.callbacks import Callbacks
from bloomdupe.crawl.requests.layout import (
    ARRAYS,
    BODY,
    CALLBACK,
    CB_KWARGS,
    CLASS,
    COOKIES,
    DONT_FILTER,
    ENCODING,
    ERRBACK,
    EXTRAS,
    FLAGS,
    HEADERS,
    META,
    METHOD,
    OTHERS,
    PARTIALS,
    PLAIN,
    PRIORITY,
)
from bloomdupe.crawl.requests.objects import name_of_class
from bloomdupe.crawl.requests.subclasses import (
    differences,
    extras_of,
    is_scrapys,
    made_again,
    own_attributes_of,
)
from bloomdupe.crawl.requests.values import (
    TooLargeError,
    culprit,
    pack,
    pack_flat,
    pack_item,
    pack_request,
    unpack,
)
from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.payload import long_url, short_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Spider

_NESTING = frozenset({COOKIES, META, FLAGS, CB_KWARGS, OTHERS, EXTRAS, PARTIALS})
"""Attributes that may hold containers in each other."""
_LEAVES = frozenset({str, bytes, int, float, bool, type(None)})

REMEDY = "; plain values, dataclasses and items can be stored"

_VISIT = 5
_FULL = b"\x96"
_NIL = b"\xc0"


class Serializer:
    """Writes and reads the requests of a spider.

    Without ``callbacks`` requests are read without theirs, so a different spider can
    read them.
    """

    def __init__(self, spider: Spider, *, callbacks: bool = True) -> None:
        self.callbacks = Callbacks(spider)
        self._name_of = self.callbacks.name_of
        self._with_callbacks = callbacks

    def dump(self, request: Request) -> bytes:
        """Return the request as bytes; raises :class:`UnserializableError`."""
        elements = self._elements(request)
        pack = pack_flat if _is_flat(elements) else pack_request
        payload = self._dump(elements, pack)
        if type(request) is not Request and not is_scrapys(type(request)):
            self._try(request, elements)
        return payload

    def dump_or_none(self, request: Request) -> bytes | None:
        """Return the request as bytes, or None if it cannot be stored."""
        try:
            return self.dump(request)
        except UnserializableError:
            return None

    def load(self, payload: bytes) -> Request:
        """Return the request; raises :class:`UnserializableError` with the reason."""
        elements = self._load(payload)
        try:
            return self._request(*elements)
        except Exception as error:  # of the classes and callbacks named in it
            raise UnserializableError(str(error) or type(error).__name__) from error

    # The visit of a page that comes again is the last element and not a part of the
    # request, so that a request made with a copy of its meta does not inherit it.

    def visit_in(self, payload: bytes) -> list[Any] | None:
        """Return the visit in a payload, or None."""
        if payload[:1] != _FULL:
            return None
        visit: list[Any] = msgpack.unpackb(payload[_end_of_request(payload) :])
        return visit

    def with_visit(self, payload: bytes, visit: list[Any]) -> bytes:
        """Return the payload with its visit replaced.

        ``visit`` holds plain values only. Neither request nor values are made.
        """
        if payload[:1] == _FULL:
            request = payload[1 : _end_of_request(payload)]
        else:
            request = payload[1:] + _NIL * (_VISIT - (payload[0] & 0x0F))
        packed: bytes = msgpack.packb(visit)
        return _FULL + request + packed

    def _load(self, payload: bytes) -> list[Any]:
        if not payload or payload[0] not in ARRAYS:
            raise UnserializableError(f"it is of an unknown kind {payload[:1]!r}")
        try:
            return unpack(payload)  # type: ignore[no-any-return]
        except Exception as error:  # of the objects in it
            raise UnserializableError(str(error) or type(error).__name__) from error

    def dump_value(self, value: object) -> bytes:
        """Return any value as bytes; raises :class:`UnserializableError`."""
        return self._dump([value], pack)

    def dump_item(self, item: object) -> bytes:
        """Return an item for :meth:`load_value`; all texts in it become plain strings.

        Raises :class:`UnserializableError`.
        """
        return self._dump([item], pack_item)

    def load_value(self, data: bytes) -> Any:  # noqa: ANN401 - any value
        """Return the value passed to :meth:`dump_value`; errors as in :meth:`load`."""
        (value,) = self._load(data)
        return value

    def explain(self, request: Request) -> str:
        """Return the part of a request that cannot be stored, and a remedy.

        Called for a request that :meth:`dump` refuses. The part is named by its place
        and its type, because its content may be secret.
        """
        try:
            elements = self._elements(request)
        except UnserializableError as error:  # of its callbacks, or its class
            return str(error)
        try:
            self._dump(elements)
        except UnserializableError as error:
            if isinstance(error.__cause__, TooLargeError):
                return str(error)
        names = ["meta", "cb_kwargs", "cookies", *own_attributes_of(type(request))]
        if type(request) is not Request:
            names += extras_of(request)
        for name in names:
            value = getattr(request, name)
            if not self._fits(value):
                place, part = culprit(value, name, self._fits)
                kind = global_object_name(type(part))
                return f"{place} is of type {kind}{REMEDY}"
        try:
            self.dump(request)
        except UnserializableError as error:  # of its constructor
            return str(error)
        return f"no part of it by itself{REMEDY}"

    def _fits(self, value: object) -> bool:
        try:
            self._dump([value])
        except UnserializableError:
            return False
        return True

    # Writing

    def _dump(
        self, elements: list[Any], pack: Callable[[list[Any]], bytes] = pack_request
    ) -> bytes:
        try:
            return pack(elements)
        except Exception as error:
            raise UnserializableError(f"{error}{REMEDY}") from error

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
        elements = [short_url(url), depth, common, rest or None, others or None]
        while elements[-1] is None:
            elements.pop()
        return elements

    def _others(
        self, request: Request, headers: dict[bytes, Any], meta: dict[Any, Any]
    ) -> dict[int, Any]:
        encoding = request.encoding
        method = request.method
        values: dict[int, Any] = {
            METHOD: None if method == "GET" else method,
            HEADERS: headers,
            BODY: request.body,
            COOKIES: request.cookies,
            META: meta,
            ENCODING: None if encoding == "utf-8" else encoding,
            PRIORITY: request.priority,
            DONT_FILTER: request.dont_filter,
            FLAGS: request.flags,
            CB_KWARGS: request.cb_kwargs,
        }
        others = {number: value for number, value in values.items() if value}
        if request.callback is not None:
            others[CALLBACK] = self._name_of(request.callback)
            if others[CALLBACK] is None:
                self._refer(request.callback, CALLBACK, others)
        if request.errback is not None:
            others[ERRBACK] = self._name_of(request.errback)
            if others[ERRBACK] is None:
                self._refer(request.errback, ERRBACK, others)
        if type(request) is not Request:
            others[CLASS] = name_of_class(type(request))
            others[OTHERS] = {
                name: getattr(request, name)
                for name in own_attributes_of(type(request))
            }
            extras = extras_of(request)
            if extras:
                others[EXTRAS] = extras
        return others

    def _try(self, request: Request, elements: list[Any]) -> None:
        """Refuse a request if its own constructor would make a different request."""
        name = global_object_name(type(request))
        try:
            again = self._request(*_copied(elements))
        except Exception as error:  # of the constructor
            raise UnserializableError(
                f"{name} cannot be made again from its attributes: {error}"
            ) from error
        others = [
            attribute
            for attribute in differences(again, request)
            if not self._is_same_function(
                getattr(again, attribute, None), getattr(request, attribute, None)
            )
        ]
        if others:
            raise UnserializableError(
                f"{name}, made again from its attributes, is another request: its"
                f" constructor changes {', '.join(others)}"
            )

    def _is_same_function(self, one: Any, other: Any) -> bool:  # noqa: ANN401 - any
        """Whether two values are partials that are stored alike."""
        if type(one) is not partial or type(other) is not partial:
            return False
        stored = [self.callbacks.partial_of(each) for each in (one, other)]
        return pack(stored[0]) == pack(stored[1])

    def _refer(
        self, function: Callable[..., Any], number: int, others: dict[int, Any]
    ) -> None:
        """Store a callback that is no method of the spider."""
        others[number], parts = self.callbacks.partial_of(function)
        others.setdefault(PARTIALS, {})[number] = parts

    # Reading

    def _function(self, others: dict[int, Any], number: int) -> Callable[..., Any]:
        partials = others.get(PARTIALS, {})
        if number in partials:
            return self.callbacks.partial(others[number], partials[number])
        return self.callbacks.method(others[number])

    def _request(
        self,
        url: str,
        depth: int | None = None,
        common: int | None = None,
        rest: bytes | None = None,
        others: dict[int, Any] | None = None,
        visit: list[Any] | None = None,  # noqa: ARG002 - see visit_in()
    ) -> Request:
        others = others or {}
        url = long_url(url)
        values = {
            name: others[number] for number, name in PLAIN.items() if number in others
        }
        for number, name in ((CALLBACK, "callback"), (ERRBACK, "errback")):
            if number in others and self._with_callbacks:
                values[name] = self._function(others, number)
        if depth is not None:
            values["meta"] = {"depth": depth, **values.get("meta", {})}
        if common is not None:
            referer = url[:common].encode("latin-1") + (rest or b"")
            values["headers"] = {**values.get("headers", {}), b"Referer": [referer]}
        values["url"] = url
        own, extras = others.get(OTHERS, {}), others.get(EXTRAS, {})
        if CLASS in others:
            return made_again(others[CLASS], values, own, extras)
        if own or extras:
            raise TypeError("it would set attributes that are not a subclass's own")
        return Request(**values)


def _copied(value: Any, levels: int = 4) -> Any:  # noqa: ANN401 - of any type
    """Return a copy that a constructor may change without changing ``value``."""
    if not levels:
        return value
    if type(value) is list:
        return [_copied(part, levels - 1) for part in value]
    if type(value) is dict:
        return {key: _copied(part, levels - 1) for key, part in value.items()}
    return value


def _end_of_request(payload: bytes) -> int:
    """Return the position of the last element in a payload of six elements."""
    unpacker = msgpack.Unpacker(unicode_errors="surrogatepass", strict_map_key=False)
    unpacker.feed(payload)
    unpacker.read_array_header()
    for _ in range(_VISIT):
        unpacker.skip()
    return int(unpacker.tell())


def _is_flat(elements: list[Any]) -> bool:
    """Whether a request holds no containers in each other.

    It is asked of each request, so it looks at no content twice.
    """
    others = elements[-1]
    if type(others) is not dict or _NESTING.isdisjoint(others):
        return True
    for number in _NESTING.intersection(others):
        part = others[number]
        if type(part) is not dict or not _LEAVES.issuperset(map(type, part.values())):
            return False
        if not _LEAVES.issuperset(map(type, part)):
            return False
    return True


def _cut(referer: bytes, url: str) -> tuple[int, bytes]:
    """Return the length of the common prefix, up to a slash, and the rest."""
    text = referer.decode("latin-1")
    common = len(text)
    while common and not url.startswith(text[:common]):
        common = text.rfind("/", 0, common - 1) + 1
    return common, referer[common:]
