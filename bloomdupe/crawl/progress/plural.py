"""Plural: numbers of things in words."""

from __future__ import annotations

__all__ = ["plural"]


def plural(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: ``1 page``, ``2,000 pages``.

    ``many`` is the text for every number but 1, by default ``one`` with an s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
