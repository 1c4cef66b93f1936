"""Serializer: a request as bytes, as :mod:`bloomdupe.requests.layout` shows.

Reading a payload imports nothing and runs no code of the project. A callback must be a
method that the spider's own classes add to ``Spider`` or override, or a partial of one.
A request of a subclass of ``Request`` is made by the constructor of ``Request``, and
gets the attributes that it had beside those of every request. The class must be loaded
already.
"""

from __future__ import annotations

import inspect
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError
from bloomdupe.requests.callbacks import Callbacks
from bloomdupe.requests.layout import NAMES, fields_of
from bloomdupe.requests.objects import loaded_class, name_of_class, state_of, with_state
from bloomdupe.requests.values import (
    REMEDY,
    RefusedError,
    pack_for_request,
    place_of,
    restore,
)
from bloomdupe.store.format import stored_priority

if TYPE_CHECKING:
    from scrapy import Spider

_OF_ALL = frozenset(state_of(Request("data:,")))
"""Attributes of every request; later versions of Scrapy keep them in slots."""


class Serializer:
    """Writes and reads the requests of a spider.

    Without a spider requests are read without their callbacks.
    """

    def __init__(self, spider: Spider | None) -> None:
        self._callbacks = Callbacks(spider)

    def dump(self, request: Request) -> bytes:
        """Return the request as bytes.

        Raises :class:`UnserializableError` with the place and the type of the part that
        cannot be stored. Its content may be secret.
        """
        try:
            elements = self._elements(request)
            # Of meta and cb_kwargs, and of cookies, flags and state.
            return pack_for_request(elements, elements[5:7] + elements[13:])
        except RefusedError as error:
            named = zip(NAMES, elements, strict=False)
            places = (name + at for name, part in named if (at := place_of(part)))
            raise RefusedError(error.what, next(places, "it")) from error
        except UnserializableError:
            raise
        except Exception as error:  # of a part's own code
            raise UnserializableError(f"{error}{REMEDY}") from error

    def dump_or_none(self, request: Request) -> bytes | None:
        """Return the request as bytes, or None if it cannot be stored."""
        try:
            return self.dump(request)
        except UnserializableError:
            return None

    def load(self, payload: bytes) -> Request:
        """Return the request; raises :class:`UnserializableError` with the reason."""
        try:
            return self._request(fields_of(payload, partial(restore, [])))
        except Exception as error:  # of the data, or what is named in it
            raise UnserializableError(str(error) or type(error).__name__) from error

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
        stored = self._callbacks.stored
        callback, errback = request.callback, request.errback
        method, encoding = request.method, request.encoding
        class_name, state = None, None
        if type(request) is not Request:
            class_name, state = _class_and_state(request)
        elements = [
            url,
            depth,
            common,
            rest or None,
            None if callback is None else stored(callback),
            meta or None,
            request.cb_kwargs or None,
            request.dont_filter or None,
            stored_priority(request.priority) if request.priority else None,
            None if errback is None else stored(errback),
            headers or None,
            None if method == "GET" else method,
            request.body or None,
            request.cookies or None,
            request.flags or None,
            None if encoding == "utf-8" else encoding,
            class_name,
            state or None,
        ]
        while elements[-1] is None:
            elements.pop()
        return elements

    def _request(self, fields: dict[str, Any]) -> Request:
        fields.pop("visit", None)
        for use in ("callback", "errback"):
            if use in fields:
                fields[use] = self._callbacks.function(fields[use])
        if "depth" in fields:
            fields["meta"] = {"depth": fields.pop("depth"), **fields.get("meta", {})}
        if "common" in fields:
            referer = fields["url"][: fields.pop("common")].encode("latin-1")
            referers = [referer + fields.pop("rest", b"")]
            fields["headers"] = {**fields.get("headers", {}), b"Referer": referers}
        if "class_name" not in fields:
            return Request(**fields)
        class_, state = loaded_class(fields.pop("class_name")), fields.pop("state", {})
        _check_state(class_, state)
        request: Any = Request.__new__(class_)
        Request.__init__(request, **fields)
        with_state(request, state)
        return request  # type: ignore[no-any-return]


# Subclasses of Request


def _class_and_state(request: Request) -> tuple[str, dict[str, Any]]:
    """Return the name of a subclass, and the attributes that it has added."""
    class_: type = type(request)
    if replaced := _replaced_by(class_):
        name = global_object_name(class_)
        raise UnserializableError(f"{name} has its own {', '.join(replaced)}")
    state = {n: value for n, value in state_of(request).items() if n not in _OF_ALL}
    _check_state(class_, state)
    return name_of_class(class_), state


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


def _check_state(class_: type, state: dict[str, Any]) -> None:
    """Refuse attributes in the place of code, or of what every request has."""
    if not issubclass(class_, Request):
        raise TypeError(f"{class_} is not a subclass of Request")
    if not _OF_ALL.isdisjoint(state) or any(
        name[:2] == "__" or callable(getattr(class_, name, None)) for name in state
    ):
        raise TypeError("it would set attributes that are not a subclass's own")


def _cut(referer: bytes, url: str) -> tuple[int, bytes]:
    """Return the length of the common prefix, up to a slash, and the rest."""
    text = referer.decode("latin-1")
    common = len(text)
    while common and not url.startswith(text[:common]):
        common = text.rfind("/", 0, common - 1) + 1
    return common, referer[common:]
