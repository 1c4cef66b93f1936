"""Rank: the order of requests in a slot, as 10 bytes. The smallest rank is first.

===== ============= =============================================================
bytes meaning       value (big-endian)
===== ============= =============================================================
4     priority      subtracted from 2**31 - 1, so that the highest is first
1 bit start request 1 for a start request, else 0
47    age           sequence, or, newest first, 2**47 - 1 - sequence
bits
===== ============= =============================================================

``sequence`` numbers all requests ever.
"""

from __future__ import annotations

BYTES = 10
"""Of each rank, so :mod:`bloomdupe.store.format` says it, too."""
BEFORE_ALL = b""
"""Smaller than all ranks."""
AFTER_ALL = b"\xff" * 5
"""Larger than all ranks."""

HIGHEST = (1 << 31) - 1
"""A priority beyond counts as this one, or as its negative."""
LAST_SEQUENCE = (1 << 47) - 1


def rank_of(priority: int, sequence: int, *, start: bool, fifo: bool) -> bytes:
    """Return the rank of a request in its slot.

    The highest priority is first; within a priority, start requests are last, as in
    Scrapy; then the newest is first, or the oldest with ``fifo``.
    """
    order = sequence if fifo else LAST_SEQUENCE - sequence
    if not -HIGHEST <= priority <= HIGHEST:
        priority = HIGHEST if priority > 0 else -HIGHEST
    return (((HIGHEST - priority) << 1 | start) << 47 | order).to_bytes(BYTES, "big")


def sequence_of(rank: bytes) -> int:
    """Return the sequence in a rank, for either order."""
    order = int.from_bytes(rank[-6:], "big") & LAST_SEQUENCE
    return min(order, LAST_SEQUENCE - order)


def is_start(rank: bytes) -> bool:
    """Whether a rank is that of a start request."""
    return rank[4] >= 1 << 7
