"""Whether a request that cannot be stored stands alone: it shares no value.

A callback may fill a list that other callbacks have, too, and the last of them may
yield an item of it. So a request with a value that can change counts with its page.
"""

from __future__ import annotations

import dis
from functools import cache, partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from bloomdupe.requests.callbacks import is_constant

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType

    from scrapy import Request, Spider

MOST_VALUES = 1_000
"""Values of a request that are looked at."""
_WRITES = frozenset({"STORE_DEREF", "DELETE_DEREF"})


def stands_alone(request: Request, spider: Spider) -> bool:
    """Whether callback, ``meta`` and ``cb_kwargs`` carry only values without change.

    These are constants, classes, the spider, its methods, and functions with such
    values.
    """
    if not type(request).__module__.startswith("scrapy."):
        return False
    left: list[Any] = [
        request.callback,
        request.errback,
        *request.cb_kwargs.values(),
        *request.meta.values(),
    ]
    known: set[int] = set()
    for value in left:
        if value is spider or id(value) in known or is_constant(value):
            continue
        if issubclass(type(value), type):  # super() needs the class of its method
            continue
        known.add(id(value))
        inner = _values_of(value)
        if inner is None:
            return False
        left += inner
        if len(left) > MOST_VALUES:
            return False
    return True


def _values_of(value: Any) -> Iterable[Any] | None:  # noqa: ANN401 - any value
    """Return the values that a function carries; None if it can change itself."""
    if type(value) is MethodType:
        return [value.__self__]
    if type(value) is partial and not vars(value):
        return [value.func, *value.args, *value.keywords.values()]
    if type(value) is not FunctionType or vars(value) or _writes(value.__code__):
        return None
    try:
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
    except ValueError:  # one has no value yet
        return None
    defaults = value.__defaults__ or (), (value.__kwdefaults__ or {}).values()
    return [*cells, *defaults[0], *defaults[1]]


@cache
def _writes(code: CodeType) -> bool:
    """Whether a function, or one in it, writes a variable that it does not own."""
    return any(
        step.opname in _WRITES and step.argval in code.co_freevars
        for step in dis.get_instructions(code)
    ) or any(_writes(inner) for inner in code.co_consts if type(inner) is type(code))
