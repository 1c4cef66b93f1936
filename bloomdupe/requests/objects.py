"""Objects of the project's own types, taken apart into fields and put together.

Users put these into ``meta`` and ``cb_kwargs``, besides plain values:

========== ===========================================================================
kind       stored content
========== ===========================================================================
enum       the name of the member
tuple      the values of a named tuple
object     the attributes of an instance of a dataclass, of a class made by attrs, of
           a pydantic model, of a ``scrapy.Item``, or of a class in ``REGISTERED``
========== ===========================================================================

Putting an object together runs no code of the project: no ``__init__``,
``__post_init__``, ``__new__``, ``__setattr__``, validator or converter. So a field gets
its stored value, even if the constructor would change it; frozen classes, ``__slots__``
and fields with ``init=False`` make no difference. Only ``__hash__`` and ``__eq__`` run,
for an object that is in a set or is a key. The class must be loaded already
(:func:`loaded_class`) and be of the same kind as before.
"""

from __future__ import annotations

import dataclasses
import sys
from enum import Enum
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

from scrapy import Item
from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError

if TYPE_CHECKING:
    from collections.abc import Callable


REGISTERED: dict[str, dict[str, Any]] = {
    "scrapy_playwright.page.PageMethod": {"result": None},
}
"""Plain classes without state besides their attributes, each with the attributes that a
download sets, and their values before it.
"""

_CACHED_HASH = "_attrs_cached_hash"
"""Attribute in which classes made by ``attrs`` with ``cache_hash`` keep a value that
differs between processes.
"""


def take_apart(value: object) -> list[Any]:
    """Return kind, class name and content of an object.

    Raises an exception if it could not be put together again.
    """
    class_ = type(value)
    kind = _kind_of(class_)
    if kind is None:
        raise UnserializableError("no class with fields")
    return [kind, name_of_class(class_), _KINDS[kind][0](value)]


def put_together(kind: str, name: str, content: Any) -> object:  # noqa: ANN401
    """Return the object that :func:`take_apart` has taken apart.

    Raises :class:`UnserializableError` if its class is not loaded, or has changed.
    """
    class_ = loaded_class(name)
    if kind not in _KINDS or _kind_of(class_) != kind:
        raise UnserializableError(f"{name} is of another kind than it was")
    try:
        return _KINDS[kind][1](class_, content)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnserializableError(f"{name} is not as it was: {error}") from error


def _kind_of(class_: type) -> str | None:
    if any("__del__" in vars(base) for base in class_.__mro__):
        return None  # its own code would run after all, at the end
    if issubclass(class_, Enum):
        return "enum"
    if issubclass(class_, tuple):
        return "tuple" if hasattr(class_, "_fields") else None
    return None if _names_of_fields(class_) is None else "object"


def _names_of_fields(class_: type) -> list[str] | None:
    """Return the fields of a class; None if it is not a class with fields."""
    if dataclasses.is_dataclass(class_):
        return [field.name for field in dataclasses.fields(class_)]
    attributes = getattr(class_, "__attrs_attrs__", None)
    if attributes is not None:
        return [attribute.name for attribute in attributes]
    pydantic: Any = sys.modules.get("pydantic.main")  # it is not imported for this
    if pydantic is not None and issubclass(class_, pydantic.BaseModel):
        return [*class_.model_fields]  # type: ignore[attr-defined]
    is_known = issubclass(class_, Item) or global_object_name(class_) in REGISTERED
    return [] if is_known else None


def _name_of_member(value: Any) -> str:  # noqa: ANN401
    if value.name not in type(value).__members__:
        raise UnserializableError("it is a combination of flags")
    return str(value.name)


def _values_of_tuple(value: Any) -> list[Any]:  # noqa: ANN401
    if getattr(value, "__dict__", None):
        raise UnserializableError("it has attributes besides its fields")
    return list(value)


def _named_tuple(class_: Any, values: list[Any]) -> object:  # noqa: ANN401
    if len(values) != len(class_._fields):
        raise ValueError(f"it has {len(class_._fields)} fields, not {len(values)}")
    return tuple.__new__(class_, values)


def _attributes(value: object) -> dict[str, Any]:
    """Return the attributes of an instance whose class can make it again."""
    class_ = type(value)
    attributes = state_of(value)
    attributes.update(REGISTERED.get(global_object_name(class_), {}))
    if attributes.get(_CACHED_HASH) is not None:
        attributes[_CACHED_HASH] = None
    _instance(class_, attributes)
    return attributes


def _instance(class_: type, attributes: dict[str, Any]) -> object:
    """Return an instance with these attributes.

    Raises :class:`TypeError` if the class derives from a builtin class, because the
    content of that is not in attributes, and :class:`ValueError` if a field is missing.
    """
    missing = set(_names_of_fields(class_) or ()) - attributes.keys()
    if missing:
        raise ValueError(f"there is nothing for {', '.join(sorted(missing))}")
    instance: object = object.__new__(class_)
    with_state(instance, attributes)
    return instance


_KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], object]]] = {
    "enum": (_name_of_member, lambda class_, name: class_.__members__[name]),
    "tuple": (_values_of_tuple, _named_tuple),
    "object": (_attributes, _instance),
}
"""How an object of a kind is taken apart, and put together."""


def state_of(value: object) -> dict[str, Any]:
    """Return the attributes of an instance, in its dict and in slots."""
    attributes = dict(getattr(value, "__dict__", {}))
    for name, slot in _slots(type(value)).items():
        try:
            attributes[name] = slot.__get__(value)
        except AttributeError:  # not set
            continue
    return attributes


def with_state(instance: object, attributes: dict[str, Any]) -> None:
    """Set the attributes of an instance. No property and no ``__setattr__`` runs."""
    slots = _slots(type(instance))
    for name, value in attributes.items():
        if name in slots:
            slots[name].__set__(instance, value)
        else:
            instance.__dict__[name] = value


def _slots(class_: type) -> dict[str, MemberDescriptorType]:
    return {
        name: member
        for base in reversed(class_.__mro__)
        for name, member in vars(base).items()
        if isinstance(member, MemberDescriptorType)
    }


def loaded_class(name: str) -> type:
    """Return the class of this name: its module's name, a dot, its qualified name.

    A store names the class of a request. Anyone who can write to the store can write
    any name there, and importing a module runs it. So nothing is imported here: a class
    is found only if the project's own imports have loaded it, and the search runs no
    code of its module or of the class.

    Raises :class:`UnserializableError` if no module that is loaded has such a class.
    """
    parts = str(name).split(".")
    for end in range(len(parts) - 1, 0, -1):
        found: Any = sys.modules.get(".".join(parts[:end]))
        if found is None:
            continue
        # Not getattr(): a module's own __getattr__ may import other modules.
        for part in parts[end:]:
            found = getattr(found, "__dict__", {}).get(part)
        if isinstance(found, type):
            return found
        raise UnserializableError(f"there is no class {name} any more")
    raise UnserializableError(
        f"the module of {name} is not loaded, and none is imported because a store"
        " names it: import it where the spider is defined"
    )


def name_of_class(class_: type) -> str:
    """Return the name by which :func:`loaded_class` finds a class.

    Raises :class:`UnserializableError` if it does not: the class is defined within a
    function, or was replaced by another class.
    """
    name = global_object_name(class_)
    if loaded_class(name) is not class_:
        raise UnserializableError(f"{name} names another class by now")
    return name
