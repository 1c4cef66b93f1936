"""ImportedNames: functions that modules of Scrapy have imported from elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar

import scrapy.http.request
import scrapy.http.response.text
import scrapy.linkextractors.lxmlhtml  # noqa: F401 - so that all of them are there

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ImportedNames"]

MODULES = (
    "scrapy.http.request",
    "scrapy.http.response",
    "scrapy.http.response.text",
    "scrapy.linkextractors.lxmlhtml",
)
"""Modules that handle each link of a page."""


class ImportedNames:
    """A function that modules of Scrapy call by one name, and a function in its place.

    Both give the same results, so it does not matter that the modules belong to all
    crawls of the process. A module in which the name means another function, because
    other code has replaced it, is left alone.
    """

    _users: ClassVar[dict[str, int]] = {}
    """Number of crawls that use the function in the place, by name."""

    def __init__(
        self, name: str, original: Callable[..., str], instead: Callable[..., str]
    ) -> None:
        self._name = name
        self._original = original
        self._instead = instead

    def replace(self) -> None:
        """Let the modules call the other function."""
        self._users[self._name] = self._users.get(self._name, 0) + 1
        self._set(self._original, self._instead)

    def restore(self) -> None:
        """Let the modules call the original, if no other crawl is left."""
        self._users[self._name] -= 1
        if not self._users[self._name]:
            self._set(self._instead, self._original)

    def _set(self, old: object, new: object) -> None:
        for path in MODULES:
            module = sys.modules[path]
            if vars(module).get(self._name) is old:
                setattr(module, self._name, new)
