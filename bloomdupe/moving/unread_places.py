"""UnreadPlaces: places of requests in a source that could not be read so far.

They are kept as a compressed bitmap, so their note stays small: about a byte for five
requests if every second place is in it, and next to nothing if few are.
"""

from __future__ import annotations

import base64
import zlib

from bloomdupe.foreign import LARGEST, inflated

__all__ = ["UnreadPlaces"]


class UnreadPlaces:
    """A set of places, counted from 0; ``text`` is that of an earlier set."""

    def __init__(self, text: str = "") -> None:
        self._bits = bytearray(
            inflated(base64.b64decode(text), LARGEST) if text else b""
        )
        self._count = int.from_bytes(self._bits, "little").bit_count()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, place: int) -> bool:
        byte, bit = divmod(place, 8)
        return byte < len(self._bits) and bool(self._bits[byte] >> bit & 1)

    def add(self, place: int) -> None:
        """Add a place."""
        if place not in self:
            byte, bit = divmod(place, 8)
            self._bits.extend(bytes(max(0, byte + 1 - len(self._bits))))
            self._bits[byte] |= 1 << bit
            self._count += 1

    def discard(self, place: int) -> None:
        """Remove a place."""
        if place in self:
            byte, bit = divmod(place, 8)
            self._bits[byte] ^= 1 << bit
            self._count -= 1

    @property
    def text(self) -> str:
        """The set as a text, empty for an empty set."""
        if not self._count:
            return ""
        return base64.b64encode(zlib.compress(bytes(self._bits))).decode()
