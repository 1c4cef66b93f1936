"""Unpickling: reads a foreign pickle without running foreign code.

A pickle names classes and functions, and loading it calls them, so its author can run
any code. Here only the plain types of :data:`SAFE` are ever called.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from bloomdupe.crawl.requests.pickle_bounds import check_pickle

__all__ = ["SAFE", "look_into", "unpickle"]

SAFE = frozenset(
    {
        *(
            ("builtins", name)
            for name in (
                "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset",
                "int", "list", "set", "str", "tuple",
            )
        ),
        *(
            ("datetime", name)
            for name in ("date", "datetime", "time", "timedelta", "timezone")
        ),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("decimal", "Decimal"),
        ("lxml.etree", "_ElementUnicodeResult"),
        ("uuid", "SafeUUID"),
        ("uuid", "UUID"),
    }
)  # fmt: skip
"""Types that a pickle may name: creating them has no side effects.

The type of lxml is a string; ``meta["link_text"]`` of a ``CrawlSpider`` has it.
"""


def unpickle(data: bytes) -> Any:  # noqa: ANN401 - any value
    """Return the pickled value, if it consists of plain types.

    Raises :class:`pickle.UnpicklingError`, which names a type that is not plain, and
    any exception if it is not a pickle, or would take much more memory than its bytes.
    """
    check_pickle(data)
    return _Careful(io.BytesIO(data)).load()


def look_into(data: bytes) -> Any:  # noqa: ANN401 - any value
    """Return the pickled value, with opaque objects in the place of other types."""
    return _Opaque(io.BytesIO(data)).load()


class _Careful(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        if (module, name) in SAFE:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it has a {module}.{name} in it")


class _Opaque(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        if (module, name) in SAFE:
            return super().find_class(module, name)
        return _Something


class _Something:
    """Replaces an object of a type that the caller does not need."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def append(self, value: object) -> None:
        """Ignore the value."""

    def extend(self, values: object) -> None:
        """Ignore the values."""
