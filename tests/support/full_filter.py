"""A filter whose bits are all set, so that it takes every key for seen."""

from __future__ import annotations

from bloomdupe import BloomFilter


def take_everything_for_seen(seen: BloomFilter) -> None:
    """Set every bit of a filter; durably, if it is in a store."""
    full = BloomFilter(seen.capacity, seen.fpp, exact=seen.exact, key=seen.key)
    layer = full.newest
    for number in range(layer.geometry.blocks):
        layer.block(number).setall(1)
    seen |= full
