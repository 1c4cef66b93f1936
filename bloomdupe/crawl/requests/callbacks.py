"""Callbacks: the methods and functions of a spider in a stored request, and back.

A method of the spider is its name. A ``functools.partial`` of a method, or a function
or lambda within a method, is a reference, which is a list:

========= ======= ==================================================================
kind      number  further elements
========= ======= ==================================================================
spider    0       none
method    1       name
partial   2       reference to its function, list of arguments, map of keywords
function  3       method that contains it, digest of its code, list of defaults, map
                  of keyword defaults, list of the values of its closure
same      4       number of a function that was read before, from 0
========= ======= ==================================================================

Each argument, default and value is a reference, or a constant: a value that cannot
change. Any other value, such as a list, might be shared with other functions, and its
copy would not be. A variable that a function within the method writes (``nonlocal``) is
shared for the same reason. A variable that gets its value further down than the
function is defined may not have that value yet.

A function is made from the code that the spider's method has now. Nothing is imported,
and the bytes hold no code. See :mod:`bloomdupe.crawl.requests.nested_code`.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import uuid
from functools import cached_property, partial
from types import CellType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from scrapy import Spider
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.requests.nested_code import NestedFunctions
from bloomdupe.errors import UnserializableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bloomdupe.crawl.requests.nested_code import NestedCode

FUNCTIONS_OF_SPIDERS: frozenset[type] = frozenset({FunctionType, partial})
"""Types of callbacks that are references."""

SPIDER, METHOD, PARTIAL, FUNCTION, SAME = range(5)
MOST_REFERENCES = 100
"""References in a callback. Each may be a level of the stack."""

CONSTANTS = (
    str,
    bytes,
    int,
    float,
    type(None),
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    enum.Enum,
    uuid.UUID,
)
"""Types of values that cannot change, besides tuples and frozensets of them."""

_CALLBACKS_OF_SCRAPY = frozenset({"parse", "_parse"})
"""Methods of ``Spider`` itself that can be a callback."""


class Callbacks:
    """The callbacks of a spider."""

    def __init__(self, spider: Spider) -> None:
        self.spider = spider
        self._names: dict[Any, str] = {}

    @cached_property
    def nested(self) -> NestedFunctions:
        """The functions in the spider's methods."""
        return NestedFunctions(type(self.spider))

    def name_of(self, function: Callable[..., Any]) -> str | int | None:
        """Return the name of a method of the spider; None for any other function."""
        if function is NO_CALLBACK:
            return 0
        plain = getattr(function, "__func__", None)
        if plain is None or getattr(function, "__self__", None) is not self.spider:
            return None
        known = self._names.get(plain)
        if known is not None:
            return known
        own: dict[str, Any] = vars(self.spider)
        # An attribute such as self.callback may lead to another method later on.
        in_class = name_in_class(self.spider, plain) or ""
        for name in (in_class, *own, *dir(self.spider)):
            method = _method_of(self.spider, name)
            if method is not None and method.__func__ is plain:
                if name not in own:
                    self._names[plain] = name
                return name
        return None

    def method(self, name: str | int) -> Callable[..., Any]:
        """Return the method of a name; raises :class:`TypeError` if it is gone."""
        if name == 0:
            return NO_CALLBACK
        method = _method_of(self.spider, str(name))
        if method is None:
            raise TypeError(f"the spider has no method {name!r} any more")
        return method

    def reference_to(self, function: Callable[..., Any]) -> tuple[str, list[Any]]:
        """Return a name to show for a function that is no method, and its reference.

        The spider has no method of that name. So a version of bloomdupe that knows no
        references refuses the request.

        Raises :class:`UnserializableError`.
        """
        reference = _ReferenceWriter(self).reference(function)  # it bounds the levels
        return self._shown(function), reference

    def function(self, shown: object, reference: object) -> Callable[..., Any]:
        """Return the function of a reference; raises any exception if it is damaged."""
        function = _ReferenceReader(self).value(reference)
        if not callable(function) or self._shown(function) != shown:
            raise TypeError(f"it is not the function {shown!r}")
        return function  # type: ignore[no-any-return]

    def nested_of(self, function: Callable[..., Any]) -> NestedCode:
        """Return the code of a function in a method of the spider.

        Raises :class:`UnserializableError` if it is any other function.
        """
        nested = None
        if type(function) is FunctionType:
            nested = self.nested.of(function)
        if nested is None:
            raise UnserializableError(
                f"{function} is not a method of {self.spider}, nor a function in one"
            )
        return nested

    def _shown(self, function: Callable[..., Any]) -> str:
        if type(function) is partial:
            return f"partial({self._shown(function.func)})"
        name = self.name_of(function)
        if name is None:
            nested = self.nested_of(function)
            name = f"{nested.method}.{nested.code.co_name}"
        return str(name)


class _ReferenceWriter:
    """Writes the reference to a callback."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._functions: list[FunctionType] = []
        self._left = MOST_REFERENCES

    def reference(self, function: Any) -> list[Any]:  # noqa: ANN401 - or the spider
        """Return the reference to the spider, a method or another function."""
        self._left -= 1
        if self._left < 0:
            raise UnserializableError(
                f"{function} refers to more than {MOST_REFERENCES} functions"
            )
        if function is self._callbacks.spider:
            return [SPIDER]
        if type(function) is partial and not vars(function):
            return self._partial(function)
        name = self._callbacks.name_of(function)
        return self._function(function) if name is None else [METHOD, name]

    def _partial(self, function: partial[Any]) -> list[Any]:
        return [
            PARTIAL,
            self.reference(function.func),
            [self._value(function, "an argument", each) for each in function.args],
            self._values(function, function.keywords),
        ]

    def _function(self, function: FunctionType) -> list[Any]:
        for number, known in enumerate(self._functions):
            if known is function:
                return [SAME, number]
        nested = self._callbacks.nested_of(function)
        _check_plain(function)
        self._functions.append(function)
        return [
            FUNCTION,
            nested.method,
            nested.digest,
            [
                self._value(function, "a default", each)
                for each in function.__defaults__ or ()
            ],
            self._values(function, function.__kwdefaults__ or {}),
            [*self._closure(function, nested)],
        ]

    def _closure(self, function: FunctionType, nested: NestedCode) -> Iterator[Any]:
        names = function.__code__.co_freevars
        for name, cell in zip(names, function.__closure__ or (), strict=True):
            if name in nested.written:
                raise UnserializableError(
                    f"{function} has {name!r}, which a function in {nested.method}"
                    " writes, so they share it"
                )
            try:
                value = cell.cell_contents
            except ValueError as error:  # it has no value yet
                raise UnserializableError(
                    f"{function} has {name!r}, which has no value"
                ) from error
            if name in nested.later and is_constant(value):
                raise UnserializableError(
                    f"{function} has {name!r}, to which {nested.method} gives another"
                    " value further down"
                )
            yield self._value(function, repr(name), value)

    def _values(self, function: object, values: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self._value(function, repr(name), value)
            for name, value in values.items()
        }

    def _value(self, function: object, name: str, value: object) -> object:
        """Return a constant as it is, and a reference to any other value."""
        if is_constant(value):
            return value
        if value is self._callbacks.spider or callable(value):
            return self.reference(value)
        raise UnserializableError(
            f"{function} has {name} of type {global_object_name(type(value))}. A"
            " function is stored with values that cannot change, such as texts,"
            " numbers and tuples; give any other value to the request in cb_kwargs"
        )


class _ReferenceReader:
    """Makes a callback from its reference."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._functions: list[FunctionType] = []
        self._left = MOST_REFERENCES
        self._kinds: dict[int, Callable[..., Any]] = {
            SPIDER: lambda: callbacks.spider,
            METHOD: callbacks.method,
            PARTIAL: self._partial,
            FUNCTION: self._function,
            SAME: self._functions.__getitem__,
        }

    def value(self, value: Any) -> Any:  # noqa: ANN401 - any value
        """Return the value of a reference or a constant."""
        if type(value) is not list:
            if not is_constant(value):
                raise TypeError("it has a value that no function is stored with")
            return value
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {MOST_REFERENCES} references")
        kind, *parts = value
        return self._kinds[kind](*parts)

    def _partial(
        self, function: object, arguments: list[Any], keywords: dict[str, Any]
    ) -> partial[Any]:
        return partial(
            self.value(function),
            *map(self.value, arguments),
            **{name: self.value(each) for name, each in keywords.items()},
        )

    def _function(
        self,
        method: str,
        digest: bytes,
        defaults: list[Any],
        keywords: dict[str, Any],
        closure: list[Any],
    ) -> FunctionType:
        nested = self._callbacks.nested.named(method, digest)
        code = nested.code
        if len(defaults) > code.co_argcount or not nested.written.isdisjoint(
            code.co_freevars
        ):
            raise ValueError(f"no function in {method} is stored like this")
        # The function may refer to itself.
        cells = tuple(CellType() for _ in code.co_freevars)
        function = FunctionType(code, nested.globals, None, None, cells)
        self._functions.append(function)
        function.__defaults__ = tuple(map(self.value, defaults)) or None
        function.__kwdefaults__ = {
            name: self.value(each) for name, each in keywords.items()
        } or None
        for cell, value in zip(cells, closure, strict=True):
            cell.cell_contents = self.value(value)
        return function


def name_in_class(owner: object, plain: Any) -> str | None:  # noqa: ANN401
    """Return the name that a function has in its owner's class; None if it has none.

    It need not be ``__name__``: a decorator may not have kept that, and a subclass may
    have another method of that name.
    """
    kind = type(owner)
    name = getattr(plain, "__name__", "")
    if getattr(kind, name, None) is plain:
        return str(name)
    for base in kind.__mro__:
        for name, value in vars(base).items():
            if value is plain and getattr(kind, name) is plain:
                return name
    return None


def _method_of(spider: Spider, name: str) -> MethodType | None:
    """Return the method of this name, if it could have been a callback.

    It is bound to the spider. Properties are not evaluated.
    """
    if not may_be_callback(spider, name):
        return None
    method = getattr(spider, name)
    bound = isinstance(method, MethodType) and method.__self__ is spider
    return method if bound else None


def may_be_callback(spider: Spider | type[Spider], name: str) -> bool:
    """Whether a callback may have this name: it is callable, and the spider's own.

    Methods that all spiders have, such as ``__init__``, ``close`` or ``from_crawler``,
    are not callbacks.
    """
    if name not in _CALLBACKS_OF_SCRAPY and hasattr(Spider, name):
        return False
    if name.startswith("__") and name.endswith("__"):
        return False
    found = inspect.getattr_static(spider, name, None)
    return callable(found) and not isinstance(found, staticmethod)


def _check_plain(function: FunctionType) -> None:
    """Refuse a function with more to it than code, defaults and closure.

    An annotation cannot be stored. Packages fill in parameters by their annotations,
    so a parameter that has one needs a default.
    """
    code = function.__code__
    defaults = function.__defaults__ or ()
    required = {
        *code.co_varnames[1 : code.co_argcount - len(defaults)],
        *code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount],
    } - (function.__kwdefaults__ or {}).keys()
    annotated = required & function.__annotations__.keys()
    if annotated:
        raise UnserializableError(
            f"{function} has a parameter with an annotation and no default:"
            f" {', '.join(sorted(annotated))}"
        )
    types: object = getattr(function, "__type_params__", None)  # from Python 3.12
    if function.__name__ != code.co_name or vars(function) or types:
        raise UnserializableError(f"{function} has attributes of its own")


def is_constant(value: Any) -> bool:  # noqa: ANN401 - anything
    """Whether a value cannot change. Whether it can be stored is not asked."""
    known: set[int] = set()
    left = [value]
    while left:
        value = left.pop()
        if issubclass(type(value), (tuple, frozenset)):
            if id(value) not in known:
                known.add(id(value))
                left.extend(value)
        elif not issubclass(type(value), CONSTANTS):
            return False
    return True
