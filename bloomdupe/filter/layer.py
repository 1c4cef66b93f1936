"""Layer: one sized filter inside a growing one."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from bitarray import bitarray

from bloomdupe.filter.hashing import (
    DIGEST_BYTES,
    block_hash,
    further_digests,
    positions,
)
from bloomdupe.filter.sizing import BLOCK_BITS, POSITIONS
from bloomdupe.store.format import (
    BLOCK_BYTES,
    BLOCK_KEY,
    BLOCKS,
    CHECKSUM_BYTES,
    checksum,
    sum_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bloomdupe.filter.sizing import Geometry
    from bloomdupe.store.store import Store

BEYOND = b"\xff" * (POSITIONS // 8 - BLOCK_BYTES)
"""The positions past a block's end: always set, so they decide nothing."""

SAMPLED_BLOCKS = 1_024
"""Blocks looked at for a layer's fill. All blocks are alike, and so many hold 67
million bits: the standard error is below 0.01 percentage points."""

MIN_BACKLOG = 4_096
MAX_BACKLOG = 1_000_000

NEWS_BYTES = 150
"""Memory that the news of a block take, besides 16 bytes a digest: a bytes object, its
number, and their place in a dictionary (measured on CPython 3.11: 130 to 150)."""

BLOCK_ENTRY_BYTES = 16
"""Memory for each block: an empty place in a list, and the block's checksum."""

_each_digest = Struct(f"{DIGEST_BYTES}s").iter_unpack


def backlog_limit(shape: Geometry) -> int:
    """Return how many digests of a layer the journal holds, about, at most.

    All of them are read when a job is opened, and each block is written once in so many
    new keys: 150 bytes a key.
    """
    return max(MIN_BACKLOG, min(shape.capacity // 40, MAX_BACKLOG))


def most_memory(shape: Geometry) -> int:
    """Return how many bytes a layer takes at most, about, if it keeps no blocks."""
    news = backlog_limit(shape)
    return (
        news * DIGEST_BYTES
        + min(news, shape.blocks) * NEWS_BYTES
        + shape.blocks * BLOCK_ENTRY_BYTES
    )


class _NewPage(bitarray):
    """A block that answers "new". A key that is added to it becomes news."""

    news: dict[int, bytes]
    key: tuple[int, bytes]
    """The block that it stands for, and the digest that was asked about."""

    def __setitem__(self, where: object, value: object) -> None:
        """Set no bit; remember the digest."""
        number, first = self.key
        self.news[number] = self.news.get(number, b"") + first


SEEN = bitarray(b"\xff" * (POSITIONS // 8), endian="little")
"""A block that answers "seen"."""


class Write(NamedTuple):
    """A block that a checkpoint writes."""

    layer: Layer
    number: int
    key: bytes
    bits: bytes
    sum: int
    is_new: bool
    """Whether no block is stored yet."""
    news: int
    """Bytes of its news that are in it."""


class Layer:
    """Blocks of bits, which are in memory from the first touch on.

    A layer that does not keep its blocks answers from LMDB's map of the data file: the
    operating system keeps in its page cache as many pages as fit, and takes the memory
    back when a program needs it. In the process are only the *news* of each block, the
    digests that the stored block does not have yet. A key is in such a layer if its
    digest is among the news of its block, or all its bits are set in the stored block.

    The digests of the journal are news, too, until their block is loaded or written. So
    opening a huge layer does not load it.
    """

    def __init__(
        self,
        number: int,
        geometry: Geometry,
        store: Store | None = None,
        *,
        keeps_blocks: bool = True,
    ) -> None:
        self.number = number
        self.geometry = geometry
        self.keeps_blocks = keeps_blocks
        self.blocks: list[bitarray | None] = [None] * geometry.blocks
        self.keys = 0
        """Keys added and durable."""
        self.pending: list[bytes] = []
        """Digests added since."""
        self.unpack = Struct(f"<{geometry.hashes}H").unpack_from
        self.further = further_digests(geometry.hashes)
        self._store = store
        self._news: dict[int, bytes] = {}
        # Checksum of each block that was read, as it stands on disk; 0: not there.
        self._sums = array("Q", bytes(8 * geometry.blocks) if store else b"")
        self._new = _NewPage(bytes(POSITIONS // 8), endian="little")
        self._new.news = self._news

    def replay(self, digests: bytes) -> None:
        """Take in the digests of a journal entry."""
        blocks, news = self.geometry.blocks, self._news
        for (first,) in _each_digest(digests):
            block = block_hash(first) % blocks
            news[block] = news.get(block, b"") + first

    def load(self, number: int, first: bytes, where: list[int]) -> bitarray:
        """Return a block that is not in memory, to ask it about a key, or to add it.

        ``first`` is the digest of the key, ``where`` its positions, which may be more
        than those of this layer. The block may answer for this key only.
        """
        if self.keeps_blocks:
            return self.block(number)
        # A hot path. Most of its time goes to the search in LMDB's tree, whose pages
        # are seldom in the processor's cache. Copying a block, or a bitarray of it,
        # would take longer than a look at one or two bytes, where most new keys fail.
        news = self._news.get(number)
        # Found across a boundary of two digests: as likely as two equal digests.
        if news is not None and first in news:
            return SEEN
        assert self._store is not None  # noqa: S101 - blocks in memory are kept
        if self._store.readonly:
            # A transaction that is kept would keep the writer from using LMDB's pages
            # again.
            return self._read(number)
        value = self._store.now.stored(BLOCKS, BLOCK_KEY.pack(self.number, number))
        new = self._new
        new.key = (number, first)
        if value is None:
            return new
        if not self._sums[number]:
            self._read(number)  # once: it compares the block with its checksum
        where = where[: self.geometry.hashes]
        for position in where[:2]:
            if position < BLOCK_BITS and not (
                value[CHECKSUM_BYTES + (position >> 3)] >> (position & 7) & 1
            ):
                return new
        bits = bitarray(buffer=value[CHECKSUM_BYTES:], endian="little")
        inside = [position for position in where if position < BLOCK_BITS]
        return SEEN if bits[inside].all() else new

    def block(self, number: int) -> bitarray:
        """Return a block to change, loading it when needed."""
        block = self.blocks[number]
        if block is None:
            block = self.blocks[number] = self._read(number)
            self._news.pop(number, None)
        return block

    def _read(self, number: int) -> bitarray:
        """Read a block, and put its news into it."""
        block = bitarray(endian="little")
        bits = bytes(BLOCK_BYTES)
        if self._store is not None:
            with self._store.snapshot() as snapshot:
                value = snapshot.value(BLOCKS, BLOCK_KEY.pack(self.number, number))
                if value is not None:
                    bits = bytes(value[CHECKSUM_BYTES:])
                    self._sums[number] = sum_of(value)
        # In one step: a bitarray that grows takes 6 % more than it needs.
        block.frombytes(bits + BEYOND)
        for (first,) in _each_digest(self._news.get(number, b"")):
            block[positions(first, self.geometry.hashes)] = 1
        return block

    def peek(self, number: int) -> bitarray:
        """Return a block without keeping it in memory."""
        block = self.blocks[number]
        return self._read(number) if block is None else block

    def all_blocks(self) -> Iterator[bitarray]:
        """Iterate over all blocks without keeping them in memory."""
        return map(self.peek, range(len(self.blocks)))

    def fill(self) -> float:
        """Share of the bits that are set, from at most 2,048 evenly spread blocks."""
        total = len(self.blocks)
        numbers = range(0, total, max(1, total // SAMPLED_BLOCKS))
        ones = sum(block.count(1, 0, BLOCK_BITS) for block in map(self.peek, numbers))
        return float(ones / (len(numbers) * BLOCK_BITS))

    def merge(self, other: Layer, other_keys: int) -> None:
        """Add everything that is in a layer of the same shape.

        How many keys both have in common is unknown: their number is estimated
        from the bits, within what is possible.
        """
        for number, theirs in enumerate(other.all_blocks()):
            mine = self.block(number)
            mine |= theirs
        estimate = self.geometry.keys_for_fill(self.fill())
        least, most = max(self.keys, other_keys), self.keys + other_keys
        self.keys = round(max(least, min(most, estimate)))

    def memory_bytes(self) -> int:
        """Bytes that blocks and news take, about."""
        size = sum(block.nbytes for block in self.blocks if block is not None)
        if not self.keeps_blocks:
            size += sum(map(len, self._news.values())) + len(self._news) * NEWS_BYTES
            size += len(self.blocks) * BLOCK_ENTRY_BYTES
        return size

    # Reaching the disk

    def write(self, number: int) -> Write | None:
        """Return what is to be written of a block; None if it has not changed."""
        news = len(self._news.get(number, b""))
        if self.blocks[number] is None and not news:
            return None
        key = BLOCK_KEY.pack(self.number, number)
        bits = _stored_bits(self.peek(number))
        total, before = sum_of(checksum(BLOCKS, key, bits)), self._sums[number]
        if self.keeps_blocks and total == before and not news:
            return None
        return Write(self, number, key, bits, total, before == 0, news)

    def written(self, write: Write) -> None:
        """Take note that a block is durable; there may be further news by now."""
        number = write.number
        self._sums[number] = write.sum
        news = self._news.pop(number, b"")[write.news :]
        if news:
            self._news[number] = news
        block = self.blocks[number]
        if self.keeps_blocks or block is None:
            return
        if _stored_bits(block) == write.bits:
            self.blocks[number] = None


def _stored_bits(block: bitarray) -> bytes:
    return bytes(memoryview(block)[:BLOCK_BYTES])
