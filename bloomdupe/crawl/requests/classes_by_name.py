"""Classes by name, among those that this process has loaded already.

A store names the class of a request. Anyone who can write to the store can write any
name there, and importing a module runs it. So nothing is imported here: a class is
found only if the project's own imports have loaded it, and the search runs no code of
its module or of the class.
"""

from __future__ import annotations

import sys
from typing import Any

from scrapy.utils.python import global_object_name

from bloomdupe.errors import UnserializableError


def loaded_class(name: str) -> type:
    """Return the class of this name: its module's name, a dot, its qualified name.

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
