"""Objects of the project's own types, taken apart into fields and put together.

Users put these into ``meta`` and ``cb_kwargs``, besides plain values:

=========== ==========================================================================
class       stored content
=========== ==========================================================================
enum        the name of the member
named tuple the list of its values
any other   the attributes of an instance of a dataclass, of a class made by attrs, of
            a pydantic model, of a ``scrapy.Item``, or of a class in ``REGISTERED``
=========== ==========================================================================

Putting an object together runs no code of the project: no ``__init__``,
``__post_init__``, ``__new__``, ``__setattr__``, validator or converter. So a field gets
its stored value, even if the constructor would change it; frozen classes, ``__slots__``
and fields with ``init=False`` make no difference. Only ``__hash__`` and ``__eq__`` run,
for an object that is in a set or is a key. The class must be loaded already
(:func:`loaded_class`); a field that is new by now has a constant as its default.
"""

from __future__ import annotations

import sys
from enum import Enum
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

from scrapy import Item
from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError
from bloomdupe.requests.callbacks import is_constant

if TYPE_CHECKING:
    from collections.abc import Collection

REGISTERED: dict[str, dict[str, Any]] = {
    "scrapy_playwright.page.PageMethod": {"result": None},
}
"""Plain classes without state besides their attributes, each with the attributes that a
download sets, and their values before it.
"""

_NO_DEFAULT = object()
_EMPTY = (list, dict, set)
"""Types of which a default may be an empty object, or a factory."""
_CACHED_HASH = "_attrs_cached_hash"
"""Attribute in which classes made by ``attrs`` with ``cache_hash`` keep a value that
differs between processes.
"""


def take_apart(value: object) -> list[Any]:
    """Return class and content of an object, and which attributes are no fields.

    Raises an exception if it could not be put together again.
    """
    class_ = type(value)
    content: Any
    if issubclass(class_, Enum):
        content = value.name  # type: ignore[attr-defined]
    elif issubclass(class_, tuple):
        content = [*value]  # type: ignore[misc]
        if getattr(value, "__dict__", None):
            raise UnserializableError("it has attributes besides its fields")
    else:
        content = state_of(value) | REGISTERED.get(global_object_name(class_), {})
        if _CACHED_HASH in content:
            content[_CACHED_HASH] = None
    names = _fields_of(class_)
    _made(class_, content, names)
    more = _no_fields(class_, content, names)
    return [name_of_class(class_), content, *([more] if more else [])]


def put_together(
    name: str, content: Any, more: list[str] | None = None, *, exported: bool = False
) -> object:
    """Return the object that :func:`take_apart` has taken apart.

    Raises :class:`UnserializableError` if its class is not loaded, or has changed. One
    that is to be ``exported`` may lack no field by now: an exporter would leave it out.
    """
    class_ = loaded_class(name)
    try:
        names = _fields_of(class_)
        if exported and (
            gone := {*_no_fields(class_, content, names)} - {*(more or ())}
        ):
            raise ValueError(f"it has no field {', '.join(sorted(gone))} any more")
        return _made(class_, content, names)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnserializableError(f"{name} is not as it was: {error}") from error


def fields_in(content: Any) -> Any:
    """Return the fields in the content of an object without its class."""
    if not isinstance(content, dict):  # of an enum, or a named tuple
        return content
    names = "_values", "__pydantic_extra__"  # of a scrapy.Item, of pydantic
    inner = {n: content[n] for n in names if isinstance(content.get(n), dict)}
    fields = {
        name: value
        for name, value in content.items()
        if not (name.startswith("__") or name in (*inner, _CACHED_HASH))
    }
    for values in inner.values():
        fields |= values
    return fields


def _made(class_: Any, content: Any, names: Collection[str]) -> object:
    """Return an object of a class with fields of these names.

    Raises :class:`TypeError` if the class has no fields, or derives from a builtin
    class, because the content of that is not in attributes.
    """
    if issubclass(class_, Enum):
        return class_.__members__[content]
    if any("__del__" in vars(base) for base in class_.__mro__):
        raise TypeError("its own code would run after all, at the end")
    if issubclass(class_, tuple):
        if type(content) is not list or len(content) != len(class_._fields):
            raise ValueError(f"it has {len(class_._fields)} fields, not {content!r}")
        return tuple.__new__(class_, content)
    if issubclass(class_, Item):
        names = ()  # none needs a value
    new = {name: _default_of(class_, name) for name in names if name not in content}
    if missing := sorted(name for name in new if new[name] is _NO_DEFAULT):
        raise ValueError(f"there is nothing for {', '.join(missing)}")
    instance: object = object.__new__(class_)
    with_state(instance, {**content, **new})
    return instance


def _fields_of(class_: Any) -> Collection[str]:
    """Return the names of the fields of a class; raise TypeError if it has none."""
    if issubclass(class_, (Enum, tuple)) or global_object_name(class_) in REGISTERED:
        return ()
    # It imports pydantic, if that is there; many crawls need neither.
    from itemadapter import ItemAdapter

    return ItemAdapter.get_field_names_from_class(class_) or ()


def _no_fields(class_: Any, content: Any, names: Collection[str]) -> list[str]:
    """Return the names of values that an exporter does not see."""
    if not isinstance(content, dict):  # of an enum, or a named tuple
        return []
    return [
        name
        for name in (content["_values"] if issubclass(class_, Item) else content)
        if name not in names and name != _CACHED_HASH and not name.startswith("__")
    ]


def _default_of(class_: Any, name: str) -> object:
    """Return the default of a field of a dataclass, of attrs or of pydantic.

    None of the project's code is called to make it.
    """
    fields = {one.name: one for one in getattr(class_, "__attrs_attrs__", ())}
    for kind in ("__dataclass_fields__", "model_fields"):
        fields |= getattr(class_, kind, {})
    field = fields.get(name)
    default = getattr(field, "default", _NO_DEFAULT)
    if is_constant(default):
        return default
    if type(default) in _EMPTY and not default:
        return type(default)()
    factories = getattr(default, "factory", 0), getattr(field, "default_factory", 0)
    return next((one() for one in factories if one in _EMPTY), _NO_DEFAULT)


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
    """Return the class of this name: that of its module, a colon, its qualified name.

    A store names the class of a request. Anyone who can write to the store can write
    any name there, and importing a module runs it. So nothing is imported here: a class
    is found only if the project's own imports have loaded it, and the search runs no
    code of its module or of the class.

    Raises :class:`UnserializableError` if no module that is loaded has such a class.
    """
    module, _, path = str(name).partition(":")
    found: Any = sys.modules.get(module)
    if found is None:
        raise UnserializableError(
            f"the module of {name} is not loaded, and none is imported because a store"
            " names it: import it where the spider is defined"
        )
    for part in path.split("."):
        # Not getattr(): a module's own __getattr__ may import other modules.
        found = getattr(found, "__dict__", {}).get(part)
    if not isinstance(found, type):
        raise UnserializableError(f"there is no class {name} any more")
    return found


def name_of_class(class_: type) -> str:
    """Return the name by which :func:`loaded_class` finds a class.

    Raises :class:`UnserializableError` if it does not: the class is defined within a
    function, or was replaced by another class.
    """
    name = f"{class_.__module__}:{class_.__qualname__}"
    if loaded_class(name) is not class_:
        raise UnserializableError(f"{name} names another class by now")
    return name
