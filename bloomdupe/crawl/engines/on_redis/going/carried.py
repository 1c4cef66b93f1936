# mypy: ignore-errors
# ruff: noqa: ANN401
"""Carried: the values that a request in memory came with, and whether they are shared.

A request in memory counts apart from its page if its callback cannot change a value
that another callback may have, too. Otherwise the page needs it when it runs again: a
callback may fill a list, and the last of several callbacks may yield an item of it.
"""

from __future__ import annotations

from functools import cache, partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mmh3 import mmh3_x64_128_digest
from scrapy import Selector
from scrapy.http import Response
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.engines.on_redis.going.canonical import canonical_text
from bloomdupe.crawl.engines.on_redis.going.identity import BY_SCRAPY, name_of_callback
from bloomdupe.crawl.engines.on_redis.going.nested_code import NestedFunctions
from bloomdupe.requests.callbacks import is_constant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from scrapy import Request

    from bloomdupe.crawl.engines.on_redis.going.middleware_values import (
        MiddlewareValues,
    )
    from bloomdupe.requests.callbacks import Callbacks

MOST_VALUES = 1_000
"""Values of a request that are read."""


class _SharedError(Exception):
    """There is a value that can change."""


class Carried:
    """The values of a request in memory that cannot change, and its responses."""

    def __init__(
        self, known: CarriedValues, digest: bytes, responses: list[Response]
    ) -> None:
        self._known = known
        self.digest = digest
        """Of the values. It tells the request from others of its page."""
        self.responses = responses
        """Their ``meta`` can change."""

    def is_unchanged(self) -> bool:
        """Whether the responses are as they were when they were first seen."""
        return self._known.are_unchanged(self)


class CarriedValues:
    """Reads the values of requests in memory, and notices responses that change."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._texts: WeakKeyDictionary[Response, str | None] = WeakKeyDictionary()
        """What can change of each response as it was at first; None once it has."""

    def of(self, request: Request, by_middlewares: MiddlewareValues) -> Carried | None:
        """Return the values of a request; None if any of them can change.

        A copy of a value that its page has ``by_middlewares`` tells it from no other
        request.
        """
        reader = _ValueReader(self._callbacks)
        try:
            reader.read_all(
                [
                    request.callback,
                    request.errback,
                    *request.cb_kwargs.values(),
                    *_values_of(request.meta, by_middlewares),
                ]
            )
        except _SharedError:
            return None
        text = "\n".join(reader.texts).encode(errors="backslashreplace")
        carried = Carried(self, mmh3_x64_128_digest(text), reader.responses)
        return carried if carried.is_unchanged() else None

    def are_unchanged(self, carried: Carried) -> bool:
        """Whether the responses are as they were when they were first seen."""
        return all([*map(self._is_unchanged, carried.responses)])

    def _is_unchanged(self, response: Response) -> bool:
        text = _text_of(response)
        if self._texts.setdefault(response, text) != text:
            self._texts[response] = None
        return text is not None and self._texts[response] is not None


def _values_of(
    meta: Mapping[Any, Any], by_middlewares: MiddlewareValues | None = None
) -> Iterable[Any]:
    copied = by_middlewares.copied(meta) if by_middlewares else ()
    for key, value in meta.items():
        if key not in BY_SCRAPY and not (key in copied and is_constant(value)):
            yield value


def _text_of(response: Response) -> str | None:
    """Return a text of all that can change of a response; None if it cannot be read."""
    own = {name for name in getattr(response, "__dict__", ()) if name[0] != "_"}
    if not own.issubset(response.attributes):  # the spider has set it
        return None
    parts: list[Any] = [response.flags, dict(response.headers)]
    if response.request is not None:
        request = response.request
        values = [*request.cb_kwargs.values(), *_values_of(request.meta)]
        if not all(map(is_constant, values)):
            return None
        meta = {key: each for key, each in request.meta.items() if key not in BY_SCRAPY}
        parts += [request.cb_kwargs, meta]
    return canonical_text(parts)


@cache
def _nested_of(spider: Any) -> NestedFunctions:
    return NestedFunctions(type(spider))


class _ValueReader:
    """Reads values of a request; raises :class:`_SharedError`."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._known: set[int] = set()
        self._left = MOST_VALUES
        self.texts: list[str] = []
        self.responses: list[Response] = []

    def read_all(self, values: Iterable[Any]) -> None:
        """Read values, and those that they have."""
        left = [*values]
        while left:
            self._left -= 1
            if self._left < 0:
                raise _SharedError
            value = left.pop()
            if is_constant(value):
                self.texts.append(canonical_text(value))
            elif id(value) not in self._known:
                self._known.add(id(value))
                left += self._parts_of(value)

    def _parts_of(self, value: Any) -> Iterable[Any]:
        """Return the values that a value has which cannot change itself."""
        if issubclass(type(value), Response):
            self.texts.append(f"{type(value).__name__} {value.url}")
            self.responses.append(value)
            return []
        if issubclass(type(value), Selector):
            self.texts.append(repr(value.get()))
            response = getattr(value, "response", None)
            return [] if response is None else [response]
        if value is self._callbacks.spider:
            self.texts.append("spider")
            return []
        if issubclass(type(value), type):
            self.texts.append(global_object_name(value))
            return []
        if type(value) is MethodType and value.__self__ is self._callbacks.spider:
            self.texts.append(str(name_of_callback(value)))
            return []
        if type(value) is partial and not vars(value):
            self.texts.append(repr(sorted(value.keywords)))
            return [value.func, *value.args, *value.keywords.values()]
        if type(value) is FunctionType and not vars(value):
            return self._function(value)
        raise _SharedError

    def _function(self, function: FunctionType) -> Iterable[Any]:
        self.texts.append(f"{function.__module__} {function.__qualname__}")
        names = function.__code__.co_freevars
        if names:
            nested = _nested_of(self._callbacks.spider).of(function)
            if nested is None or not nested.written.isdisjoint(names):
                raise _SharedError
        try:
            values = [cell.cell_contents for cell in function.__closure__ or ()]
        except ValueError as error:  # one has no value yet
            raise _SharedError from error
        return [
            *values,
            *(function.__defaults__ or ()),
            *(function.__kwdefaults__ or {}).values(),
        ]
