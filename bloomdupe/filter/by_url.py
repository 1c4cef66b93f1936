"""Filters by URL: the class of the filters that URLs name.

The class is part of ``bloomdupe.redis``, which is above this room. So this room does
not import it: ``bloomdupe`` itself registers a function that does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_load: Callable[[], Any]


def register(load: Callable[[], Any]) -> None:
    """Set the function that loads the class, when the first such filter is opened."""
    global _load  # noqa: PLW0603 - `bloomdupe` sets it once
    _load = load


def class_for_urls() -> Any:  # noqa: ANN401 - it is derived from a class of this room
    """Return the class of the filters that URLs name.

    Raises :class:`~bloomdupe.errors.ExtraMissingError` without ``bloomdupe[redis]``.
    """
    return _load()
