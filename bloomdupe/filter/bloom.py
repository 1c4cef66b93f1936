"""BloomFilter: remembers keys, in a few bytes a key."""

from __future__ import annotations

import os
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from bloomdupe.errors import StoreError
from bloomdupe.filter import hashing
from bloomdupe.filter.contents import RECORD, Contents, FilterInfo, empty_record
from bloomdupe.filter.parameters import (
    DEFAULT_FPP,
    SHARE,
    Parameters,
    check_memory,
    held_against,
    is_url,
    machine_memory,
)
from bloomdupe.store.format import COOKIES
from bloomdupe.store.lmdb.lmdb_store import Directory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bitarray import bitarray
    from typing_extensions import Self

    from bloomdupe.store.store import Store, StorePlace

# Bound once: the hot path calls them for every key.
_digest = hashing.digest
_block_hash = hashing.block_hash


class _Closed(list[Any]):
    """Stands in the place of a closed filter's blocks."""

    def __getitem__(self, number: object) -> NoReturn:
        raise StoreError("the filter is closed; open it again")


class BloomFilter(Contents):
    """A set of keys that errs on one side: "maybe seen" or "certainly new".

    ``capacity`` (n) is the expected number of keys, ``fpp`` (p) the probability
    that a new key is called seen. Past its capacity the filter adds layers, so that p
    holds. Keys are ``bytes`` or ``str`` (which stands for its UTF-8 bytes).

    ``BloomFilter(capacity, fpp)`` lives in memory only; :meth:`open` keeps it in a
    directory.

    With ``exact`` all keys are exact, too: a false positive is noticed, and no
    new key is called seen. In a store the exact part lies on disk.

    ``key`` (16 bytes) is mixed into every hash; only filters with the same key can
    be combined. It is drawn at random unless given.

    Parameters are attributes, such as ``capacity``. Not thread-safe. A forked child
    must not write.
    """

    _blocks: list[bitarray | None]
    _shared = False

    def __init__(
        self,
        capacity: int,
        fpp: float = DEFAULT_FPP,
        *,
        exact: bool = False,
        key: bytes | None = None,
    ) -> None:
        parameters = Parameters.checked(capacity, fpp, exact, key)
        parameters.check_room(machine_memory(), "memory")
        self._begin(parameters)

    # Opening and closing

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | StorePlace,
        capacity: int | None = None,
        fpp: float | None = None,
        *,
        exact: bool | None = None,
        key: bytes | None = None,
        identity: dict[str, Any] | None = None,
        memory: int | None = None,
        readonly: bool = False,
    ) -> Self:
        """Open the filter kept in the directory ``path``, or create it there.

        Or at another place of a store, see :class:`bloomdupe.store.store.StorePlace`.

        To create one, ``capacity`` is needed (``fpp`` is 1e-6 and ``exact`` False
        unless given). An existing store is checked against every parameter given,
        and against ``identity`` (names and texts of the caller's own, such as the
        spider): a difference raises
        :class:`~bloomdupe.errors.StoreMismatchError`, which prints both.
        ``memory`` is the number of bytes that its blocks may take in memory (None: a
        quarter of the machine's memory). Layers that do not fit answer from the data
        file, which the operating system keeps in its page cache: that takes two to
        three times the time, and memory only for keys that are not in their blocks yet.
        ``readonly`` looks at the last checkpoint, also while another process
        writes. Unless it was closed well and has not changed since, an existing
        store is checked first (docs/how-it-works.md). On a network file system only
        ``readonly`` opens it.

        A ``path`` such as ``redis://host:6379/0#name`` names a filter that many
        processes share: it returns a
        :class:`bloomdupe.filter.redis_filter.RedisFilter`, which needs
        ``bloomdupe[redis]``.
        """
        memory = check_memory(memory)
        given = {"capacity": capacity, "fpp": fpp, "exact": exact, "key": key}
        # A capacity that is not given is 1 as long as it is not used.
        asked = Parameters.checked(1 if capacity is None else capacity, fpp, exact, key)
        wanted = {one: vars(asked)[one] for one in given if given[one] is not None}
        identity = identity or {}
        with ExitStack() as undo:
            place: Any = path
            if is_url(path):
                from bloomdupe.filter.redis_filter import Head, RedisFilter, connected

                place = Head(undo.enter_context(connected(path, exact=asked.exact)))
            elif isinstance(path, (str, os.PathLike)):
                place = Directory(Path(path))
            if place.exists():
                store = place.open(readonly=readonly)
            elif readonly or capacity is None:
                raise StoreError(
                    f"{place.shown}: there is no bloomdupe store"
                    + ("" if readonly else "; give a capacity to create one")
                )
            else:
                asked.check_room(*place.room())
                records = {"store": asked.header(identity), RECORD: empty_record(asked)}
                store = place.create(records)
            undo.callback(store.close)
            found = held_against(place.shown, store.header, wanted, identity)
            if is_url(path):
                filter_ = cast("Self", RedisFilter(found, store, readonly=readonly))
            else:
                filter_ = cls.__new__(cls)
                if memory is None:
                    memory = machine_memory() // SHARE
                filter_._begin(found, store, memory)  # noqa: SLF001 - our own
            undo.pop_all()
        return filter_

    def close(self) -> None:
        """Checkpoint and release the store. Closing again does nothing."""
        store = self.store
        if store is None:
            return
        try:
            if not self._shared:
                self.checkpoint()
        finally:
            self.store = None
            store.close()
            self._blocks = _Closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Adding and asking

    def add(self, key: bytes | str, *, exact: bool = False) -> bool:
        """Add a key; True if it was certainly new, False if maybe seen before.

        ``exact`` keeps this key exactly, though others are not, so that the answer
        about it is never wrong, provided it is always given for this key.
        """
        # The hot path. A new key costs two hashes, one list of k small numbers, a
        # look at the first position (where most new keys fail), one write of all
        # of them, and one list append. It calls no function of ours up to k = 16.
        if type(key) is not bytes:
            key = hashing.as_bytes(key)
        first = _digest(self.key + key)
        hashed = _block_hash(first)
        # Locals first: CPython cannot specialize `self._unpack(first)`.
        unpack = self._unpack
        further = self._further
        where = [*unpack(first + further(first))]
        number = hashed % self._block_count
        block = self._blocks[number]
        if block is None:
            block = self._load(number, first, where)
        if (block[where[0]] and block[where].all()) or (
            self._guarded and self._guard(where, hashed, first)
        ):
            if not (exact or self.exact):
                return False
            identity = hashing.exact_id(self.key, key)
            if self._is_exact(identity):
                return False
            self._exact.add(identity)
        elif exact or self.exact:
            self._exact.add(hashing.exact_id(self.key, key))
        block[where] = 1
        pending = self._pending
        pending.append(first)
        if len(pending) >= self._room and not self._shared:
            self.checkpoint()
        return True

    def update(self, keys: Iterable[bytes | str]) -> int:
        """Add all keys; return how many were new.

        A key of a wrong type raises; the keys before it have been added.
        """
        # Not map(): CPython enters a function faster from Python than from C. In
        # portions, for counting once is cheaper than adding up.
        add = self.add
        some = iter(keys)
        new = 0
        while answers := [add(key) for key in islice(some, 1_000)]:
            new += answers.count(True)
        return new

    def add_many(self, keys: Iterable[bytes | str]) -> list[bool]:
        """Add all keys, like :meth:`update`; say of each whether it was new."""
        return [self.add(key) for key in keys]

    def contains(self, key: bytes | str, *, exact: bool = False) -> bool:
        """Whether the key is maybe in the filter; False is certain.

        ``exact`` as in :meth:`add`.
        """
        if type(key) is not bytes:
            key = hashing.as_bytes(key)
        first = _digest(self.key + key)
        hashed = _block_hash(first)
        unpack = self._unpack
        further = self._further
        where = [*unpack(first + further(first))]
        number = hashed % self._block_count
        block = self._blocks[number]
        if block is None:
            block = self._load(number, first, where)
        if not (
            block[where[0]] and block[where[self._other]] and block[where].all()
        ) and not (self._older and self._in_older(where, hashed, first)):
            return False
        if exact or self.exact:
            return self._is_exact(hashing.exact_id(self.key, key))
        return True

    __contains__ = contains

    def contains_many(self, keys: Iterable[bytes | str]) -> list[bool]:
        """Say of each key whether it is maybe in the filter."""
        return [self.contains(key) for key in keys]

    def _in_older(self, where: list[int], hashed: int, first: bytes) -> bool:
        """Whether an older layer has a key; its positions are a part of ``where``."""
        start, other = where[0], where[self._other]
        for blocks, count, hashes, load in self._older:
            block = blocks[hashed % count]
            if block is None:
                block = load(hashed % count, first, where)
            # Most keys that are not here fail at one of two positions.
            if block[start] and block[other] and block[where[:hashes]].all():
                return True
        return False

    def _guard(self, where: list[int], hashed: int, first: bytes) -> bool:
        """Check a key, unknown to the newest layer, before it is added.

        True if an older layer has it. Raises if nothing may be added.
        """
        if self._in_older(where, hashed, first):
            return True
        if self._readonly and self.store is not None:
            raise StoreError(f"{self.store.shown} was opened read-only")
        return False

    # Durability

    def share_store(self) -> Store | None:
        """Leave the checkpoints to a caller that has more for the same transaction.

        From now on the filter commits nothing, not even when it closes, except the
        parts that :meth:`prepare` returns. Returns the store (None: the filter is in
        memory).
        """
        self._shared = True
        return self.store

    @property
    def due(self) -> bool:
        """Whether a checkpoint is due at once, because much is not durable yet."""
        return len(self._pending) >= self._room

    def backup(self, path: str | os.PathLike[str], *, cookies: bool = False) -> int:
        """Checkpoint, and write a copy without free space to the new store ``path``.

        It may be called while the filter is in use, and on a read-only one while
        another process writes. The ``cookies`` of a crawl are left out unless told;
        returns how many.
        """
        store = self.store
        if store is None:
            raise StoreError("the filter is in memory only, or closed")
        self.checkpoint()
        without = () if cookies else (COOKIES,)
        return store.copy(Path(path), without=without)

    # Figures and parameters

    @property
    def identity(self) -> dict[str, Any]:
        """The identity that the creator of the store gave it (empty in memory)."""
        return {} if self.store is None else dict(self.store.header["identity"])

    @property
    def layer_count(self) -> int:
        """Layers so far."""
        return len(self.layers)

    @property
    def memory_bytes(self) -> int:
        """Bytes that the blocks loaded so far take."""
        return sum(layer.memory_bytes() for layer in self.layers)

    @property
    def keeps_blocks(self) -> bool:
        """Whether its newest layer keeps blocks in memory; see ``memory``."""
        return self.newest.keeps_blocks

    def estimated_keys(self) -> float:
        """Return the number of keys estimated from the bits that are set."""
        return sum(layer.geometry.keys_for_fill(layer.fill()) for layer in self.layers)

    def info(self) -> FilterInfo:
        """Return the given, counted and calculated figures; no block is read."""
        store = self.store
        return FilterInfo.of(
            None if store is None else str(store.path),
            self.parameters,
            [self.counts],
            exact_keys=self._record["exact"] + len(self._exact),
            disk_bytes=0 if store is None else store.disk_bytes(),
        )

    # Set algebra

    def is_compatible(self, other: BloomFilter) -> bool:
        """Whether both have equal :attr:`parameters`, so that they can be combined."""
        return self.parameters == other.parameters

    def copy(self) -> BloomFilter:
        """Return a copy in memory."""
        empty = BloomFilter(self.capacity, self.fpp, exact=self.exact, key=self.key)
        empty |= self
        return empty

    def union(self, other: BloomFilter) -> BloomFilter:
        """Return a filter in memory with the keys of both."""
        both = self.copy()
        both |= other
        return both

    __or__ = union
