"""PerRun: a value of a spider that begins anew in each run."""

from __future__ import annotations

from copy import copy
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

Value = TypeVar("Value")


class PerRun(Generic[Value]):
    """An attribute of a class that is no attribute of the spider, so none is stored.

    What tests count in a run, or have seen in it, must not come again in the next one.
    """

    def __init__(self, first: Value) -> None:
        self._first = first
        self._values: WeakKeyDictionary[Any, Value] = WeakKeyDictionary()

    def __get__(self, owner: object, class_: type) -> Value:
        """Return the value of this run."""
        if owner is None:
            return self  # type: ignore[return-value] # bloomdupe looks at the class
        return self._values.setdefault(owner, copy(self._first))

    def __set__(self, owner: object, value: Value) -> None:
        """Change it for the rest of this run."""
        self._values[owner] = value
