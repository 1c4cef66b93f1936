"""Rank: the order of requests in a slot, as bytes. The smallest rank is first.

A rank takes 7 bytes, 9 to 16 with a priority far from 0:

===== =========================== ==================================================
bytes meaning                     value
===== =========================== ==================================================
1     head, priority -56 to 55    16 + 2 * (55 - priority) + start
1     head, above: n bytes follow 16 - n
1     head, below: n bytes follow 239 + n
0, n  excess over 55, under -56,  inverted above, so that the highest is first; the
      less 1 (big-endian)         fewest bytes that hold it, 1 to 8
0, 1  start                       after such an excess only
6     order (big-endian)          sequence, or, newest first, 2**48 - 1 - sequence
===== =========================== ==================================================

``start`` is 1 for a start request, else 0; ``sequence`` numbers all requests ever. No
rank is a prefix of another rank, so inverting all bits reverses their order.
"""

from __future__ import annotations

BEFORE_ALL = b""
"""Smaller than all ranks."""
AFTER_ALL = b"\xff"
"""Larger than all ranks."""

PRIORITY_LIMIT = (1 << 63) - 1
LAST_SEQUENCE = (1 << 48) - 1

_LOWEST, _HIGHEST = -56, 55
"""Priorities that need no bytes of their own."""
_FIRST_HEAD, _LAST_HEAD = 16, 239


def rank_of(priority: int, sequence: int, *, start: bool, fifo: bool) -> bytes:
    """Return the rank of a request in its slot.

    The highest priority is first; within a priority, start requests are last, as in
    Scrapy; then the newest is first, or the oldest with ``fifo``. A priority outside 64
    bits counts as the nearest within them.
    """
    order = sequence if fifo else LAST_SEQUENCE - sequence
    if _LOWEST <= priority <= _HIGHEST:
        head = _FIRST_HEAD + 2 * (_HIGHEST - priority) + start
        return (head << 48 | order).to_bytes(7, "big")
    return _far(priority) + bytes([start]) + order.to_bytes(6, "big")


def sequence_of(rank: bytes) -> int:
    """Return the sequence in a rank, for either order."""
    order = int.from_bytes(rank[-6:], "big")
    return min(order, LAST_SEQUENCE - order)


def is_start(rank: bytes) -> bool:
    """Whether a rank is that of a start request."""
    head = rank[0]
    if _FIRST_HEAD <= head <= _LAST_HEAD:
        return bool((head - _FIRST_HEAD) & 1)
    return bool(rank[-7])


def _far(priority: int) -> bytes:
    """Return head and excess of a priority that does not fit into the head."""
    if priority > _HIGHEST:
        excess = min(priority, PRIORITY_LIMIT) - _HIGHEST - 1
        size = max(1, (excess.bit_length() + 7) // 8)
        return bytes([_FIRST_HEAD - size]) + _inverted(excess.to_bytes(size, "big"))
    excess = _LOWEST - 1 - max(priority, -PRIORITY_LIMIT)
    size = max(1, (excess.bit_length() + 7) // 8)
    return bytes([_LAST_HEAD + size]) + excess.to_bytes(size, "big")


def _inverted(data: bytes) -> bytes:
    return bytes(255 - byte for byte in data)
