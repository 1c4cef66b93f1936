"""Second use: a page that was fetched with ``dont_filter`` is asked for once more.

Scrapy's filter does not remember requests with ``dont_filter``, start requests above
all. So the page to which a login leads may be the start page, and another callback may
take what the first one has looked at. Ours remembers them, and drops a plain link back;
what is no plain link, as Scrapy's filter would see it for the first time, passes once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomdupe.filter.bloom import BloomFilter

__all__ = ["forced_mark", "has_second_use", "second_mark"]


def forced_mark(key: bytes) -> bytes:
    """Return what marks that only requests with ``dont_filter`` have had a key."""
    return b"forced " + key


def second_mark(key: bytes) -> bytes:
    """Return what marks that it was taken in once more, for a second use."""
    return b"again " + key


def has_second_use(seen: BloomFilter, key: bytes) -> bool:
    """Whether a key that was seen may be taken in once more."""
    return seen.contains(forced_mark(key)) and not seen.contains(second_mark(key))
