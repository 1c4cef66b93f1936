"""Offered: what a worker has offered before, as far as it remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.filter.bloom import BloomFilter

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Offered"]

MOST = 10_000_000
"""Keys; 38 MB at the default probability."""


class Offered(BloomFilter):
    """A filter in memory that begins anew when it is full.

    What it has forgotten is offered to Redis once more, which knows it. So a worker
    takes no more memory than this, however large the crawl is that it shares.
    """

    @classmethod
    def of(cls, capacity: int, fpp: float) -> Self:
        """Make one for a crawl of so many URLs."""
        return cls(min(capacity, MOST), fpp, growth="warn")

    def add(self, key: bytes | str, *, exact: bool = False) -> bool:
        """Add a key; True if it was certainly new, as far as is remembered."""
        new = super().add(key, exact=exact)
        if new and len(self) >= self.parameters.capacity:
            self.clear()
            super().add(key, exact=exact)
        return new
