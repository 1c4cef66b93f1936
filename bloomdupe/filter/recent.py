"""RecentFilter: a filter in memory that forgets."""

from __future__ import annotations

from bloomdupe.filter.bloom import BloomFilter


class RecentFilter(BloomFilter):
    """A filter in memory that empties itself when it is full.

    Use it where a forgotten key costs one more lookup.
    """

    def __init__(self, capacity: int, fpp: float) -> None:
        super().__init__(max(2, capacity), fpp)

    def add(self, key: bytes | str, *, exact: bool = False) -> bool:
        """Add a key; True if it was certainly new, as far as is remembered."""
        new = super().add(key, exact=exact)
        if new and len(self) >= self.capacity - 1:  # a full filter adds a layer
            self.clear()
            super().add(key, exact=exact)
        return new
