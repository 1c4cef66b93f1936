# mypy: ignore-errors
"""Nested functions: the lambdas and functions in the methods of a spider.

Their code is among the constants of the method's code. So it can be found again in
another process, by the method and a digest of the code, without running anything.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import UnserializableError
from bloomdupe.store.format import DIGEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_WRAPPERS = 100
"""Decorators of a method that are looked through."""
_FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS
"""Flags that the code of a function has, and the body of a class has not."""
_WRITES = frozenset({"STORE_DEREF", "DELETE_DEREF"})


class NestedCode(NamedTuple):
    """The code of a function in a method."""

    method: str
    """Name of the class that defines the method, a dot, and the method's name."""
    digest: bytes
    code: CodeType
    globals: dict[str, Any]
    written: frozenset[str]
    """Variables of the method or of functions in it that a function within writes."""
    later: frozenset[str]
    """Variables that get a value further down than the function is defined."""


class NestedFunctions:
    """The functions in the methods of a class and of its bases that are not Scrapy's.

    Those in a method that a decorator has wrapped are found if the decorator uses
    ``functools.wraps()``.
    """

    def __init__(self, class_: type) -> None:
        self._by_code: dict[int, NestedCode] = {}
        self._by_name: dict[tuple[str, bytes], NestedCode] = {}
        for base in class_.__mro__:
            if base.__module__.startswith("scrapy."):
                continue
            for name, attribute in vars(base).items():
                method = f"{base.__qualname__}.{name}"
                for function in _functions_in(attribute):
                    self._add(method, function)

    def _add(self, method: str, function: FunctionType) -> None:
        written = frozenset(_written_in(function.__code__))
        for code, later in _nested_in(function.__code__):
            digest = digest_of_code(code)
            nested = NestedCode(
                method, digest, code, function.__globals__, written, later
            )
            self._by_code[id(code)] = nested
            self._by_name.setdefault((method, nested.digest), nested)

    def of(self, function: FunctionType) -> NestedCode | None:
        """Return the code of a function; None if it would not be found again."""
        nested = self._by_code.get(id(function.__code__))
        if nested is None:
            return None
        again = self._by_name[nested.method, nested.digest]
        same = nested.globals is again.globals is function.__globals__
        return nested if same else None

    def named(self, method: str, digest: bytes) -> NestedCode:
        """Return the code in a method that has this digest.

        Raises :class:`UnserializableError` if no code there has it.
        """
        nested = self._by_name.get((method, digest))
        if nested is None:
            raise UnserializableError(
                f"the function that it calls in {method} is not there any more, or its"
                " code has changed; another version of Python changes the code, too"
            )
        return nested


def digest_of_code(code: CodeType) -> bytes:
    """Return a digest of a function's code: 16 bytes of BLAKE2b.

    It is the same in each process with the same version of Python. It does not depend
    on the file and the lines of the code.
    """
    text = repr(
        [
            code.co_name,
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_flags,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
            [*map(_constant, _constants(code))],
            code.co_code,
            getattr(code, "co_exceptiontable", b""),  # from Python 3.11
        ]
    )
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()


def _constants(code: CodeType) -> Sequence[object]:
    """Return the constants of code, without the number of its first line.

    From Python 3.13 the body of a class has that number among them.
    """
    if code.co_flags & _FUNCTION == _FUNCTION:
        return code.co_consts
    return [part for part in code.co_consts if part != code.co_firstlineno]


def _constant(value: object) -> str:
    """Return a text for a constant of code, the same for the same constant."""
    if isinstance(value, CodeType):
        return digest_of_code(value).hex()
    if isinstance(value, tuple):
        return repr([*map(_constant, value)])
    if isinstance(value, frozenset):
        return repr({"set": sorted(map(_constant, value))})
    return f"{type(value).__name__} {value!r}"


def _functions_in(attribute: Any) -> Iterator[FunctionType]:  # noqa: ANN401 - any
    """Yield the functions that a class attribute consists of: wrappers and wrapped."""
    for _ in range(MOST_WRAPPERS):
        if isinstance(attribute, FunctionType):
            yield attribute
        if isinstance(attribute, (staticmethod, classmethod)):
            attribute = attribute.__func__
        else:
            # Not getattr(): the attribute may have a __getattr__ of its own.
            attribute = getattr(attribute, "__dict__", {}).get("__wrapped__")
        if attribute is None:
            return


def _nested_in(
    code: CodeType, later: frozenset[str] = frozenset()
) -> Iterator[tuple[CodeType, frozenset[str]]]:
    """Yield the code of the functions in a function, at any depth.

    With it come ``later`` and the variables that get a value further down. The body of
    a class is left out. So is the code that Python makes for a comprehension: its
    arguments have no names. The functions in that are found.
    """
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and inner.co_flags & _FUNCTION == _FUNCTION:
            here = later.union(_written_after(code, inner))
            if not any(name.startswith(".") for name in inner.co_varnames[:1]):
                yield inner, here
            yield from _nested_in(inner, here)


def _written_after(code: CodeType, inner: CodeType) -> Iterator[str]:
    """Yield the variables that code writes after it has defined a function."""
    defined = False
    for step in dis.get_instructions(code):
        if step.argval is inner:
            defined = True
        elif defined and step.opname in _WRITES:
            yield step.argval


def _written_in(code: CodeType) -> Iterator[str]:
    """Yield the variables that functions in a function write, but do not own."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            for step in dis.get_instructions(inner):
                if step.opname in _WRITES and step.argval in inner.co_freevars:
                    yield step.argval
            yield from _written_in(inner)
