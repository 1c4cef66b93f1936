"""ReplacedName: a function of a module or class of Scrapy, replaced by a faster one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from bloomdupe.inside_scrapy.private_names import found

if TYPE_CHECKING:
    from collections.abc import Callable

URL_MODULES = (
    "scrapy.http.request",
    "scrapy.http.response",
    "scrapy.http.response.text",
    "scrapy.linkextractors.lxmlhtml",
)
"""Modules that handle each link of a page."""


class ReplacedName:
    """A function that Scrapy calls by a name, and a function in its place.

    Both give the same results, so it does not matter that modules and classes belong to
    all crawls of the process. A module or class in which the name means another
    function, because other code has replaced it, is left alone.
    """

    _users: ClassVar[dict[str, int]] = {}
    """Number of crawls that use the function in the place, by name."""

    def __init__(
        self,
        places: tuple[str, ...],
        name: str,
        original: Callable[..., Any],
        instead: Callable[..., Any],
    ) -> None:
        self._places = [found(place) for place in places]
        self.name = name
        self._original = original
        self._instead = instead

    def replace(self) -> None:
        """Let Scrapy call the other function."""
        self._users[self.name] = self._users.get(self.name, 0) + 1
        self._set(self._original, self._instead)

    def restore(self) -> None:
        """Let Scrapy call the original, if no other crawl is left."""
        self._users[self.name] -= 1
        if not self._users[self.name]:
            self._set(self._instead, self._original)

    def _set(self, old: object, new: object) -> None:
        for place in self._places:
            if vars(place).get(self.name) is old:
                setattr(place, self.name, new)
