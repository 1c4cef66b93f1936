"""Pickles from outside: read within bounds, without running foreign code.

A pickle names classes and functions, and loading it calls them, so its author can run
any code. Here only the plain types of :data:`SAFE` are ever called.

A pickle is a program. A few bytes of it can make the unpickler reserve gigabytes (the
number of a place in its memory, the length of a bytearray, ``bytes(1 << 40)``), or put
a list into another list twice, again and again. So the program is followed here without
creating its objects. Only their containment is recorded, which gives the size of each
object when it is written out.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from typing import Any, NamedTuple

from bloomdupe.foreign import DEEPEST, LARGEST, MOST_VALUES

__all__ = ["SAFE", "check_pickle", "look_into", "unpickle"]

VALUE = LARGEST // MOST_VALUES
"""Bytes counted for each value, besides those of a text."""
MOST_STEPS = 4 * MOST_VALUES

NEVER_CALLED = frozenset({"bool", "dict", "float", "int", "list", "str", "tuple"})
"""Builtin types that pickles name, but never call; ``str`` could double a text."""
NO_NUMBERS = frozenset({"bytearray", "bytes"})
"""Builtin types that make so many bytes if they are called with a number."""


class _Global(NamedTuple):
    name: str


_NUMBER = object()
"""Represents any number."""
_MARK = object()


def check_pickle(data: bytes) -> None:
    """Refuse a pickle that would take much more memory than its bytes.

    Raises :class:`ValueError`, also if it is not a pickle.
    """
    if len(data) > LARGEST:
        raise ValueError(f"it is longer than {LARGEST:,} bytes")
    program = _Program()
    try:
        for step, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if step > MOST_STEPS:
                raise ValueError(f"it has more than {MOST_STEPS:,} steps")
            program.follow(opcode.name, argument)
    except (IndexError, KeyError, AttributeError, TypeError) as error:
        raise ValueError("it is no pickle, or is cut off") from error
    _check_weights(program.nodes)


class _Program:
    """A pickle's stack and memory. A list represents any object that holds objects."""

    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        """All lists."""
        self._stack: list[Any] = []
        self._memory: dict[int, Any] = {}

    def follow(self, name: str, argument: Any) -> None:  # noqa: ANN401
        """Execute a step."""
        if name in _PUSHED:
            self._stack.append(_PUSHED[name])
        elif name in _TEXTS:
            self._stack.append(argument)
        elif name in _MADE:
            self._make(self._popped(_MADE[name]))
        elif name in _PUT_INTO:
            parts = self._popped(_PUT_INTO[name])
            self._holder().extend(parts)
        elif name not in _NOTHING:
            self._other(name, argument)

    def _popped(self, many: int | None) -> list[Any]:
        """Pop ``many`` objects from the stack; None: all behind the mark."""
        if many is None:
            place = len(self._stack) - 1
            while self._stack[place] is not _MARK:
                place -= 1
                if place < 0:
                    raise IndexError
            found = self._stack[place + 1 :]
            del self._stack[place:]
            return found
        found = self._stack[len(self._stack) - many :]
        if len(found) < many:
            raise IndexError
        del self._stack[len(self._stack) - many :]
        return found

    def _make(self, parts: list[Any]) -> None:
        self.nodes.append(parts)
        self._stack.append(parts)

    def _holder(self) -> list[Any]:
        holder = self._stack[-1]
        if not isinstance(holder, list):
            raise ValueError("it puts something into what holds nothing")  # noqa: TRY004
        return holder

    def _other(self, name: str, argument: Any) -> None:  # noqa: ANN401
        if name in ("GET", "BINGET", "LONG_BINGET"):
            self._stack.append(self._memory[int(argument)])
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._remember(argument)
        elif name == "POP":
            self._stack.pop()
        elif name == "POP_MARK":
            self._popped(None)
        elif name == "DUP":
            self._stack.append(self._stack[-1])
        else:
            self._use_type(name, argument)

    def _remember(self, place: int | None) -> None:
        known = len(self._memory)
        place = known if place is None else int(place)
        if place > known + 1:  # cPickle of Python 2 has begun with 1
            raise ValueError(f"it remembers something at place {place:,}")
        self._memory[place] = self._stack[-1]

    def _use_type(self, name: str, argument: Any) -> None:  # noqa: ANN401
        if name == "GLOBAL":
            self._stack.append(_Global(argument.replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            self._stack.append(_Global(".".join(self._popped(2))))
        elif name in ("REDUCE", "NEWOBJ"):
            called, arguments = self._popped(2)
            self._call(called, arguments)
        elif name == "NEWOBJ_EX":
            called, arguments, named = self._popped(3)
            self._call(called, arguments, named)
        elif name == "OBJ":
            called, *parts = self._popped(None)
            self._call(called, parts)
        elif name == "INST":
            self._call(_Global(argument.replace(" ", ".")), self._popped(None))
        else:
            raise ValueError(f"it has a step {name}, which no request needs")

    def _call(self, called: Any, *arguments: Any) -> None:  # noqa: ANN401
        given = [part for part in arguments if isinstance(part, list)]
        if isinstance(called, _Global):
            module, _, name = called.name.rpartition(".")
            builtin = module in ("builtins", "__builtin__")
            numbers = any(_NUMBER in parts for parts in given)
            if builtin and (name in NEVER_CALLED or (name in NO_NUMBERS and numbers)):
                raise ValueError(f"it calls {called.name}")
        self._make(list(arguments))


_TEXTS = frozenset(
    {
        "BINBYTES", "BINBYTES8", "BINSTRING", "BINUNICODE", "BINUNICODE8",
        "BYTEARRAY8", "SHORT_BINBYTES", "SHORT_BINSTRING", "SHORT_BINUNICODE",
        "STRING", "UNICODE",
    }
)  # fmt: skip
_PUSHED = {"MARK": _MARK} | dict.fromkeys(
    (
        "BINFLOAT", "BININT", "BININT1", "BININT2", "FLOAT", "INT", "LONG", "LONG1",
        "LONG4", "NEWFALSE", "NEWTRUE", "NONE",
    ),
    _NUMBER,
)  # fmt: skip
_MADE: dict[str, int | None] = {
    "EMPTY_DICT": 0, "EMPTY_LIST": 0, "EMPTY_SET": 0, "EMPTY_TUPLE": 0, "TUPLE1": 1,
    "TUPLE2": 2, "TUPLE3": 3, "TUPLE": None, "LIST": None, "DICT": None,
    "FROZENSET": None,
}  # fmt: skip
"""Number of objects that become one object; None: all behind the mark."""
_PUT_INTO: dict[str, int | None] = {
    "APPEND": 1, "APPENDS": None, "SETITEM": 2, "SETITEMS": None, "ADDITEMS": None,
    "BUILD": 1,
}  # fmt: skip
"""Number of objects that are put into the object before them; None: all behind the
mark.
"""
_NOTHING = frozenset({"FRAME", "PROTO", "STOP"})


def _check_weights(nodes: list[list[Any]]) -> None:
    """Refuse objects that are too large when each of their parts is written out."""
    known: dict[int, tuple[int, int]] = {}  # bytes, and levels
    begun: set[int] = set()
    for root in nodes:
        ahead = [root]
        while ahead:
            node = ahead[-1]
            if id(node) in known:
                ahead.pop()
                continue
            parts = [part for part in node if isinstance(part, list)]
            unknown = [part for part in parts if id(part) not in known]
            if not unknown:
                known[id(node)] = _weighed(node, [known[id(part)] for part in parts])
                ahead.pop()
                continue
            begun.add(id(node))
            if any(id(part) in begun for part in unknown):
                raise ValueError("it has something in it that holds itself")
            ahead += unknown


def _weighed(node: list[Any], parts: list[tuple[int, int]]) -> tuple[int, int]:
    texts = sum(len(part) for part in node if isinstance(part, str | bytes | bytearray))
    size = VALUE * (1 + len(node) - len(parts)) + texts
    size += sum(weight for weight, _ in parts)
    level = 1 + max((level for _, level in parts), default=0)
    if size > LARGEST:
        raise ValueError(f"it takes more than {LARGEST:,} bytes")
    if level > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    return size, level


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
