"""RecentFilter: what was added last, in memory that does not grow."""

from __future__ import annotations

from bloomdupe.filter.bloom import BloomFilter

__all__ = ["RecentFilter"]


class RecentFilter(BloomFilter):
    """A filter in memory that forgets all it holds when it is full, and begins anew.

    For those who lose nothing by asking somebody else once more.
    """

    def __init__(self, capacity: int, fpp: float) -> None:
        super().__init__(capacity, fpp, growth="warn")

    def add(self, key: bytes | str, *, exact: bool = False) -> bool:
        """Add a key; True if it was certainly new, as far as is remembered."""
        new = super().add(key, exact=exact)
        if new and len(self) >= self.parameters.capacity:
            self.clear()
            super().add(key, exact=exact)
        return new
