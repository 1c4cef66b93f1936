"""MappedLayer: a layer that keeps none of its pages in memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bitarray import bitarray

from bloomdupe.filter.hashing import DIGEST_BYTES, page_hash
from bloomdupe.filter.layer import Layer, backlog_limit
from bloomdupe.filter.sizing import PAGE_BITS, POSITIONS
from bloomdupe.store.format import CHECKSUM_BYTES

if TYPE_CHECKING:
    from bloomdupe.filter.layer import LayerPart
    from bloomdupe.filter.sizing import Geometry
    from bloomdupe.store.store import Store

NEWS_BYTES = 150
"""Memory that the news of a page take, besides 16 bytes a digest: a bytes object, its
number, and their place in a dictionary (measured on CPython 3.11: 130 to 150)."""


PAGE_ENTRY_BYTES = 16
"""Memory for each page: an empty place in a list, and the page's checksum."""


def most_memory(shape: Geometry) -> int:
    """Return how many bytes a mapped layer of this shape takes at most, about."""
    news = backlog_limit(shape)
    with_news = -shape.pages * math.expm1(-news / shape.pages)
    return round(
        news * DIGEST_BYTES + with_news * NEWS_BYTES + shape.pages * PAGE_ENTRY_BYTES
    )


class _NewPage(bitarray):
    """A page in which no bit is set, nor ever will be."""

    def __setitem__(self, where: object, value: object) -> None:
        """Set nothing: the news remember it."""


SEEN = bitarray(b"\xff" * (POSITIONS // 8), endian="little")
"""A page that answers "seen"."""
NEW = _NewPage(bytes(POSITIONS // 8), endian="little")
"""A page that answers "new"."""


class MappedLayer(Layer):
    """A layer that answers questions from LMDB's map of the data file.

    The operating system keeps in its page cache as many of the pages as fit, and
    takes their memory back when a program needs it. In the process are only the *news*
    of each page: digests that the stored page does not have yet. These are the digests
    of the journal and the keys added since the last checkpoint, at most a million and
    the new keys of a checkpoint. They leave when the sweep has written their page.

    A key is in the layer if its digest is among the news of its page, or all its bits
    are set in the stored page.
    """

    keeps_pages = False

    def __init__(self, number: int, geometry: Geometry, store: Store) -> None:
        super().__init__(number, geometry, store)
        self.pending = _Pending(self)
        self._mapped = store
        self._folding: dict[int, int] = {}
        """Bytes of news that the prepared checkpoint writes, by page."""

    def add_news(self, first: bytes) -> None:
        """Add a new digest to the news of its page."""
        number = page_hash(first) % len(self.pages)
        self._unapplied[number] = self._unapplied.get(number, b"") + first

    def load(self, number: int, first: bytes, where: list[int]) -> bitarray:
        """Return :data:`SEEN` or :data:`NEW`, the answer for a key."""
        # A hot path. Most of its time goes to the search in LMDB's tree, whose pages
        # are seldom in the processor's cache. Copying a page, or a bitarray of it,
        # would take longer than a look at one or two bytes, where most new keys fail.
        news = self._unapplied.get(number)
        # Found across a boundary of two digests: as likely as two equal digests.
        if news is not None and first in news:
            return SEEN
        if self._mapped.readonly:
            # A transaction that is kept would keep the writer from using pages again.
            return self._read(number)
        value = self._mapped.now.page(self.number, number)
        if value is None:
            return NEW
        if not self._checksums[number]:
            self._read(number)  # once: it compares the page with its checksum
        where = where[: self.geometry.hashes]
        for position in where[:2]:
            if position < PAGE_BITS and not (
                value[CHECKSUM_BYTES + (position >> 3)] >> (position & 7) & 1
            ):
                return NEW
        bits = bitarray(buffer=value[CHECKSUM_BYTES:], endian="little")
        try:
            found = bits[where].all()
        except IndexError:  # a position past the end of the page, which is always set
            found = bits[[one for one in where if one < PAGE_BITS]].all()
        return SEEN if found else NEW

    def page(self, number: int) -> bitarray:
        """Return a page to change. It is in memory until the sweep has written it."""
        page = self.pages[number]
        if page is None:
            page = self.pages[number] = self._read(number)
        return page

    def prepare(
        self, sequence: int, new_keys: int, *, everything: bool = False
    ) -> LayerPart:
        """Return the layer's part of a checkpoint, and change nothing."""
        self._folding = {}
        return super().prepare(sequence, new_keys, everything=everything)

    def _changed(self, number: int) -> bytes | None:
        news = self._unapplied.get(number)
        if news is None and self.pages[number] is None:
            return None
        self._folding[number] = 0 if news is None else len(news)
        return self._value_if_changed(number, self.peek(number))

    def _written(self, part: LayerPart, new_keys: int) -> None:
        super()._written(part, new_keys)
        for number, size in self._folding.items():
            self.pages[number] = None
            news = self._unapplied.pop(number, b"")[size:]
            if news:
                self._unapplied[number] = news
        self._folding = {}

    def memory_bytes(self) -> int:
        """Bytes that the news and the pages of a union take, about."""
        digests = self.journal_keys + len(self.pending)
        news = len(self._unapplied) * NEWS_BYTES + digests * DIGEST_BYTES
        return super().memory_bytes() + news + len(self.pages) * PAGE_ENTRY_BYTES


class _Pending(list[bytes]):
    """The digests added since the last checkpoint; they are news, too."""

    def __init__(self, layer: MappedLayer) -> None:
        super().__init__()
        self._layer = layer

    def append(self, first: bytes) -> None:
        """Add a digest."""
        super().append(first)
        self._layer.add_news(first)
