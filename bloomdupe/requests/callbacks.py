"""Callbacks: the methods of a spider in a stored request, and back.

A method of the spider is its name. A ``functools.partial`` of a method is a list of
name, arguments and keywords, if these are constants: values that cannot change. Any
other value, such as a list, might be shared with other callbacks, and its copy would
not be.

Lambdas and functions within a method are not stored, nor is any other function. Nothing
is imported, and the bytes hold no code.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import uuid
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any

from scrapy import Spider
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError

if TYPE_CHECKING:
    from collections.abc import Callable


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
    """The callbacks of a spider. Without a spider they are read as None."""

    def __init__(self, spider: Spider | None) -> None:
        self._spider: Any = spider
        self._names: dict[Any, str] = {}
        """Of methods of the class that have been stored."""
        self._of_class: set[str] = set()
        """Names of methods of the class that have been read."""

    def stored(self, function: Any) -> str | int | list[Any]:
        """Return what is stored of a function.

        Raises :class:`UnserializableError` if it cannot be stored.
        """
        is_partial = type(function) is partial and not vars(function)
        inner = function.func if is_partial else function
        name = self._name_of(inner)
        if name is None:
            raise UnserializableError(
                f"{getattr(inner, '__qualname__', inner)} is not a method of"
                f" {self._spider}: use a method of the spider, and give it values in"
                " cb_kwargs"
            )
        if not is_partial:
            return name
        for value in (*function.args, *function.keywords.values()):
            if not is_constant(value):
                raise UnserializableError(
                    f"partial({name}) has an argument of type"
                    f" {global_object_name(type(value))}: give it to the request in"
                    " cb_kwargs"
                )
        return [name, [*function.args], dict(function.keywords)]

    def function(self, stored: Any) -> Callable[..., Any] | None:
        """Return the function of what is stored; any exception if it is damaged."""
        if self._spider is None:
            return None
        if type(stored) is not list:
            return self._method(stored)
        name, arguments, keywords = stored
        if not all(map(is_constant, (*arguments, *keywords.values()))):
            raise TypeError("it has a value that no partial is stored with")
        return partial(self._method(name), *arguments, **keywords)

    def _name_of(self, function: Any) -> str | int | None:
        """Return the name of a method of the spider; None if it is none."""
        owner: Any = function.__self__ if type(function) is MethodType else None
        if owner is None or owner is not self._spider:
            return 0 if function is NO_CALLBACK else None
        name = self._names.get(plain := function.__func__)
        if name is None:
            name = name_of_method(self._spider, plain)
            if name is not None and name not in vars(self._spider):
                self._names[plain] = name
        return name

    def _method(self, name: Any) -> Callable[..., Any]:
        if name == 0:
            return NO_CALLBACK
        if name not in self._of_class or name in vars(self._spider):
            if _function_of(self._spider, str(name)) is None:
                raise TypeError(f"the spider has no method {name!r} any more")
            self._of_class.add(name)
        return getattr(self._spider, name)  # type: ignore[no-any-return]


def name_of_method(spider: Spider, plain: Any) -> str | None:
    """Return the name of the method of a spider with this function, or None.

    It need not be ``__name__``: a decorator may not have kept that, and a subclass may
    have another method of that name. An attribute such as ``self.callback`` comes last:
    it may lead to another method later on.
    """
    own = vars(spider)
    name: str = getattr(plain, "__name__", "")
    if name not in own and _function_of(spider, name) is plain:
        return name
    names = sorted(dir(spider), key=own.__contains__)
    return next((n for n in names if _function_of(spider, n) is plain), None)


def _function_of(spider: Spider, name: str) -> object:
    """Return the function of a method that could have been a callback, or None.

    The method is bound to the spider. Properties are not evaluated.
    """
    method = getattr(spider, name) if may_be_callback(spider, name) else None
    if isinstance(method, MethodType) and method.__self__ is spider:
        return method.__func__
    return None


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


def is_constant(value: Any) -> bool:
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
