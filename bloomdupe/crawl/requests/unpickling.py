"""Unpickling: a pickle of others is read without running anything of theirs.

A pickle names classes and functions, and loading it calls them, so whoever has written
it can have any code run. Here only the plain types of :data:`SAFE` are ever called.
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
"""Types that a pickle may name: making one of them has no effect beside it.

That of lxml is a text; ``meta["link_text"]`` of a ``CrawlSpider`` is one.
"""


def unpickle(data: bytes) -> Any:  # noqa: ANN401 - whatever was pickled
    """Return what was pickled, if it consists of plain types.

    Raises :class:`pickle.UnpicklingError`, which names what else there is, and any
    exception for what is no pickle, or would take much more memory than its bytes.
    """
    check_pickle(data)
    return _Careful(io.BytesIO(data)).load()


def look_into(data: bytes) -> Any:  # noqa: ANN401 - whatever was pickled
    """Return what was pickled, with something opaque for all but plain types."""
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
    """Stands for an object of a type that nobody asks for."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def append(self, value: object) -> None:
        """Take no note of it."""

    def extend(self, values: object) -> None:
        """Take no note of them."""
