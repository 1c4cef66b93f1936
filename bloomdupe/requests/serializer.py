"""Serializer: a request as bytes, as :mod:`bloomdupe.requests.layout` shows.

Reading a payload imports nothing and runs no code of the project. A callback must be a
method that the spider's own classes add to ``Spider`` or override, or a partial of one.
A request of a subclass of ``Request`` is made by the constructor of ``Request``, and
gets the attributes that it had beside those of every request. The class must be loaded
already.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError
from bloomdupe.requests.callbacks import Callbacks
from bloomdupe.requests.layout import (
    BODY,
    CALLBACK,
    CB_KWARGS,
    CLASS,
    COOKIES,
    DONT_FILTER,
    ENCODING,
    ERRBACK,
    FLAGS,
    HEADERS,
    META,
    METHOD,
    NAMES,
    PRIORITY,
    STATE,
    check_kind,
    long_url,
    short_url,
)
from bloomdupe.requests.objects import loaded_class, name_of_class, state_of, with_state
from bloomdupe.requests.values import (
    MOST_BYTES,
    REMEDY,
    RefusedError,
    Writer,
    place_of,
    unpack,
)

if TYPE_CHECKING:
    from scrapy import Spider

_NESTING = frozenset({COOKIES, META, FLAGS, CB_KWARGS, STATE})
"""Attributes that may hold containers in each other, besides partials."""
_FUNCTIONS = frozenset({CALLBACK, ERRBACK})

_OF_ALL = frozenset(
    {
        *getattr(Request("data:,"), "__dict__", ()),
        *(name for one in Request.__mro__ for name in getattr(one, "__slots__", ())),
    }
)
"""Attributes of every request; later versions of Scrapy keep them in slots."""


class Serializer:
    """Writes and reads the requests of a spider.

    Without ``callbacks`` requests are read without theirs, so a different spider can
    read them.
    """

    def __init__(self, spider: Spider, *, callbacks: bool = True) -> None:
        self.callbacks = Callbacks(spider)
        self._with_callbacks = callbacks

    def dump(self, request: Request) -> bytes:
        """Return the request as bytes.

        Raises :class:`UnserializableError` with the place and the type of the part that
        cannot be stored. Its content may be secret.
        """
        try:
            return self._dump(request)
        except RefusedError as error:
            raise RefusedError(error.what, _place_in(request)) from error
        except UnserializableError:
            raise
        except Exception as error:  # of a part's own code
            raise UnserializableError(f"{error}{REMEDY}") from error

    def dump_or_none(self, request: Request) -> bytes | None:
        """Return the request as bytes, or None if it cannot be stored."""
        try:
            return self._dump(request)
        except Exception:  # noqa: BLE001 - of a part's own code
            return None

    def load(self, payload: bytes) -> Request:
        """Return the request; raises :class:`UnserializableError` with the reason."""
        check_kind(payload)
        try:
            return self._request(*unpack(payload))
        except Exception as error:  # of the data, or what is named in it
            raise UnserializableError(str(error) or type(error).__name__) from error

    # Writing

    def _dump(self, request: Request) -> bytes:
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
        nested = [others[number] for number in _NESTING.intersection(others)]
        return Writer(MOST_BYTES).pack(elements, nested)

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
            others[CALLBACK] = self.callbacks.stored(request.callback)
        if request.errback is not None:
            others[ERRBACK] = self.callbacks.stored(request.errback)
        if type(request) is not Request:
            class_: type = type(request)
            if replaced := _replaced_by(class_):
                name = global_object_name(class_)
                raise UnserializableError(f"{name} has its own {', '.join(replaced)}")
            others[CLASS] = name_of_class(class_)
            if state := _state_of(request):
                others[STATE] = state
        return others

    # Reading

    def _request(
        self,
        url: str,
        depth: int | None = None,
        common: int | None = None,
        rest: bytes | None = None,
        others: dict[int, Any] | None = None,
        visit: list[Any] | None = None,  # noqa: ARG002 - no part of the request
    ) -> Request:
        url = long_url(url)
        values: dict[str, Any] = {"url": url}
        class_, state = None, None
        for number, value in (others or {}).items():
            if number in _FUNCTIONS:
                if self._with_callbacks:
                    values[NAMES[number]] = self.callbacks.function(value)
            elif number == CLASS:
                class_ = value
            elif number == STATE:
                state = value
            else:
                values[NAMES[number]] = value
        if depth is not None:
            values["meta"] = {"depth": depth, **values.get("meta", {})}
        if common is not None:
            referer = url[:common].encode("latin-1") + (rest or b"")
            values["headers"] = {**values.get("headers", {}), b"Referer": [referer]}
        if class_ is None and not state:
            return Request(**values)
        return _of_subclass(class_, values, state or {})


# Subclasses of Request


@cache
def _replaced_by(class_: type) -> list[str]:
    """Return the attributes of every request that a subclass has of its own.

    Such as a property ``url``: what it returns is not what it was given.
    """
    return [
        name
        for name, value in vars(Request).items()
        if name in _OF_ALL or name.startswith("_set_") or isinstance(value, property)
        if inspect.getattr_static(class_, name) is not value
    ]


def _of_subclass(name: Any, values: dict[str, Any], state: dict[str, Any]) -> Request:  # noqa: ANN401 - of a store
    class_ = loaded_class(name) if name is not None else Request
    if not issubclass(class_, Request):
        raise TypeError(f"{name} is not a subclass of Request")
    if not _may_be_state(class_, state):
        raise TypeError("it would set attributes that are not a subclass's own")
    request: Any = Request.__new__(class_)
    Request.__init__(request, **values)
    with_state(request, state)
    return request  # type: ignore[no-any-return]


def _may_be_state(class_: type[Request], names: dict[str, Any]) -> bool:
    """Whether a store may set these: neither code nor what every request has."""
    return (
        (class_ is not Request or not names)
        and _OF_ALL.isdisjoint(names)
        and not any(
            name[:2] == "__" or callable(getattr(class_, name, None)) for name in names
        )
    )


def _place_in(request: Request) -> str:
    """Return where the first part of a request is that cannot be stored."""
    names = ("meta", "cb_kwargs", "cookies", "flags")
    parts = {name: getattr(request, name) for name in names}
    parts["state"] = _state_of(request)
    for name, part in parts.items():
        if place := place_of(part):
            return name + place
    return "it"


def _state_of(request: Request) -> dict[str, Any]:
    """Return the attributes that a subclass has added."""
    state = state_of(request)
    return {name: value for name, value in state.items() if name not in _OF_ALL}


def _cut(referer: bytes, url: str) -> tuple[int, bytes]:
    """Return the length of the common prefix, up to a slash, and the rest."""
    text = referer.decode("latin-1")
    common = len(text)
    while common and not url.startswith(text[:common]):
        common = text.rfind("/", 0, common - 1) + 1
    return common, referer[common:]
