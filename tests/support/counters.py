"""PerRun: a value of a spider that begins anew in each run."""

from __future__ import annotations

from copy import copy
from typing import Any, Generic, TypeVar, overload
from weakref import WeakKeyDictionary

from typing_extensions import Self

Value = TypeVar("Value")


class PerRun(Generic[Value]):
    """An attribute of a class that is no attribute of the spider, so none is stored.

    What tests count in a run, or have seen in it, must not come again in the next one.
    """

    def __init__(self, first: Value) -> None:
        self._first = first
        self._values: WeakKeyDictionary[Any, Value] = WeakKeyDictionary()

    @overload
    def __get__(self, owner: None, class_: type) -> Self: ...

    @overload
    def __get__(self, owner: object, class_: type) -> Value: ...

    def __get__(self, owner: object | None, class_: type) -> Self | Value:
        """Return the value of this run."""
        if owner is None:
            return self
        return self._values.setdefault(owner, copy(self._first))

    def __set__(self, owner: object, value: Value) -> None:
        """Change it for the rest of this run."""
        self._values[owner] = value
