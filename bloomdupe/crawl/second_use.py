"""Second use: a page that was fetched with ``dont_filter`` is asked for once more.

Scrapy's filter does not remember requests with ``dont_filter``, start requests above
all. So the page to which a login leads may be the start page, and another callback may
take what the first one has looked at. Ours remembers them, and drops a link back. What
asks for the page in order to do something else with it passes once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.filter.bloom import BloomFilter

__all__ = ["first_marks", "has_second_use", "is_first_use", "second_mark"]

FORCED = b"forced "


def first_marks(key: bytes, identity: bytes) -> Iterator[bytes]:
    """Yield what marks that only a request with ``dont_filter`` has had a key.

    And for what: see :func:`bloomdupe.crawl.identity.identity_of`.
    """
    yield FORCED + key
    if identity != key:
        yield FORCED + identity


def is_first_use(seen: BloomFilter, key: bytes, identity: bytes) -> bool:
    """Whether a request is a plain link, or what the page was fetched for before."""
    return identity == key or seen.contains(FORCED + identity)


def second_mark(key: bytes) -> bytes:
    """Return what marks that it was taken in once more, for a second use."""
    return b"again " + key


def has_second_use(seen: BloomFilter, key: bytes) -> bool:
    """Whether a key that was seen may be taken in once more."""
    return seen.contains(FORCED + key) and not seen.contains(second_mark(key))
