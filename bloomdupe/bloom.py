"""BloomFilter: what has been seen, in a few bytes a key."""

from __future__ import annotations

import logging
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from bloomdupe import hashing, sizing
from bloomdupe.contents import Contents, empty_record
from bloomdupe.errors import FilterFullError, IncompatibleFilterError, StoreError
from bloomdupe.info import FilterInfo, LayerInfo, wilson_interval
from bloomdupe.layer import MAX_SWEEP
from bloomdupe.parameters import DEFAULT_FPP, Parameters, check_growth, check_same
from bloomdupe.storage import Store

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from bitarray import bitarray
    from typing_extensions import Self

    from bloomdupe.batch import Batch
    from bloomdupe.contents import Checkpoint
    from bloomdupe.layer import Layer
    from bloomdupe.storage import Change

__all__ = ["BloomFilter"]

logger = logging.getLogger(__name__)

MAX_PENDING = 10_000
"""New keys after which a checkpoint happens by itself."""

MAX_EXACT_PENDING = 1_000
"""New exact keys after which a checkpoint happens: each dirties a page of its own, and
LMDB keeps the dirty pages of a transaction in memory."""

HASH_RANGE = 1 << 32

# Bound once: the hot path calls them for every key.
_digest = hashing.digest
_page_hash = hashing.page_hash


class _Closed(list[Any]):
    """Stands in the place of a closed filter's pages."""

    def __getitem__(self, number: object) -> NoReturn:
        raise StoreError("the filter is closed; open it again")


class _Shared(NamedTuple):
    """A filter's part of a transaction (a :class:`bloomdupe.storage.Change`)."""

    filter: BloomFilter
    checkpoint: Checkpoint

    def write(self, batch: Batch) -> None:
        self.checkpoint.write(batch)

    def done(self) -> None:
        self.checkpoint.done()
        self.filter._aim()


class BloomFilter:
    """A set of keys that errs on one side: "maybe seen" or "certainly new".

    ``capacity`` (n) is the expected number of keys, ``fpp`` (p) the probability
    that a new key is called seen, growth included. Keys are ``bytes`` or ``str``
    (which stands for its UTF-8 bytes).

    ``BloomFilter(capacity, fpp)`` lives in memory only; :meth:`open` keeps it in a
    directory. ``growth`` says what happens past capacity: ``"grow"`` adds a layer,
    so that p holds; ``"warn"`` goes on with a rising rate; ``"error"`` raises
    :class:`~bloomdupe.errors.FilterFullError` and adds nothing.

    ``confirm`` is the share of keys (0 to 1) that are also kept exactly, so that a
    false positive on them is noticed and corrected: 1 makes an exact set, 1/1024
    measures the true rate. In a store the exact part lies on disk.

    ``key`` (16 bytes) is mixed into every hash; only filters with the same key can
    be combined. It is drawn at random unless given.

    Not thread-safe. A forked child must not write.
    """

    __hash__ = None  # type: ignore[assignment]

    _pages: list[bitarray | None]

    def __init__(
        self,
        capacity: int,
        fpp: float = DEFAULT_FPP,
        *,
        growth: str = "grow",
        confirm: float = 0.0,
        key: bytes | None = None,
    ) -> None:
        parameters = Parameters.checked(capacity, fpp, confirm, key)
        parameters.check_memory()
        self._begin(parameters, check_growth(growth), None)

    def _begin(self, parameters: Parameters, growth: str, store: Store | None) -> None:
        self.parameters = parameters
        self._growth = growth
        self._store = store
        self._secret = parameters.key
        # A key is confirmed if its page hash lies below this. Neither its page
        # nor its positions are special, so the rate measured is that of all.
        self._confirm_below = round(parameters.confirm * HASH_RANGE)
        self._warned = False
        self._when_full: Callable[[], None] | None = None
        self._contents = Contents(parameters, store)
        self._pending = self._contents.pending
        self._aim()

    # Opening and closing

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        capacity: int | None = None,
        fpp: float | None = None,
        *,
        growth: str = "grow",
        confirm: float | None = None,
        key: bytes | None = None,
        identity: dict[str, Any] | None = None,
        readonly: bool = False,
        allow_network_fs: bool = False,
    ) -> Self:
        """Open the filter kept in the directory ``path``, or create it there.

        To create one, ``capacity`` is needed (``fpp`` is 1e-6 and ``confirm`` 0
        unless given). An existing one is checked against every parameter given,
        and against ``identity`` (names and texts of the caller's own, such as the
        spider): a difference raises
        :class:`~bloomdupe.errors.StoreMismatchError`, which prints both.
        ``readonly`` looks at the last checkpoint, also while another process
        writes. Unless it was closed well and nobody has touched it since, an existing
        store is checked first (see README); on a network file system it is refused
        without ``allow_network_fs``.
        """
        check_growth(growth)
        asked = Parameters.checked(
            1 if capacity is None else capacity, fpp, confirm, key
        )
        given = {"capacity": capacity, "fpp": fpp, "confirm": confirm, "key": key}
        directory = Path(path)
        if Store.exists(directory):
            store = Store.open(directory, readonly=readonly, network=allow_network_fs)
        elif readonly or capacity is None:
            raise StoreError(
                f"{directory}: there is no bloomdupe store"
                + ("" if readonly else "; give a capacity to create one")
            )
        else:
            asked.check_disk(directory)
            header = asked.header(identity or {})
            store = Store.create(
                directory,
                {"store": header, "filter": empty_record(asked)},
                network=allow_network_fs,
            )
        try:
            found = Parameters.from_header(store.header, directory)
            wanted = {
                name: vars(asked)[name] for name in given if given[name] is not None
            }
            check_same(directory, vars(found), wanted)
            check_same(directory, store.header["identity"], identity or {})
            filter_ = cls.__new__(cls)
            filter_._begin(found, growth, store)
        except BaseException:
            store.close()
            raise
        return filter_

    def close(self) -> None:
        """Checkpoint and release the store. Closing again does nothing."""
        store, self._store = self._store, None
        if store is None:
            return
        try:
            if self._when_full is None:
                self._contents.checkpoint()
        finally:
            store.close()
            self._pages = _Closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Adding and asking

    def add(self, key: bytes | str, *, exact: bool = False) -> bool:
        """Add a key; True if it was certainly new, False if maybe seen before.

        ``exact`` keeps this key exactly, whatever ``confirm`` says, so that the
        answer about it is never wrong, provided it is always given for this key.
        """
        # The hot path. A new key costs two hashes, one list of k small numbers, a
        # look at the first position (where most new keys fail), one write of all
        # of them, and one list append. It calls no function of ours unless k > 8.
        if type(key) is not bytes:
            key = hashing.as_bytes(key)
        first = _digest(self._secret + key)
        hashed = _page_hash(first)
        number = hashed % self._page_count
        page = self._pages[number]
        if page is None:
            page = self._load(number)
        # Locals first: CPython cannot specialize `self._head(first)`.
        head = self._head
        tail = self._tail
        if tail is None:
            where = [*head(first)]
        else:
            where = [*head(first), *tail(_digest(first))]
        if (page[where[0]] and page[where].all()) or (
            self._guarded and self._guard(where, hashed)
        ):
            if not exact and hashed >= self._confirm_below:
                return False
            if self._contents.exact.has(key):
                return False
            self._contents.false_positives += 1
            self._contents.remember(key)
        elif exact or hashed < self._confirm_below:
            self._contents.remember(key)
        page[where] = 1
        pending = self._pending
        pending.append(first)
        if len(pending) >= self._room:
            self._overflow()
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

    def contains(self, key: bytes | str, *, exact: bool = False) -> bool:
        """Whether the key is maybe in the filter; False is certain.

        ``exact`` as in :meth:`add`.
        """
        if type(key) is not bytes:
            key = hashing.as_bytes(key)
        first = _digest(self._secret + key)
        hashed = _page_hash(first)
        number = hashed % self._page_count
        page = self._pages[number]
        if page is None:
            page = self._load(number)
        head = self._head
        tail = self._tail
        if tail is None:
            where = [*head(first)]
        else:
            where = [*head(first), *tail(_digest(first))]
        if not (
            page[where[0]] and page[where[self._other]] and page[where].all()
        ) and not (self._older and self._in_older(where, hashed)):
            return False
        if exact or hashed < self._confirm_below:
            return self._contents.exact.has(key)
        return True

    __contains__ = contains

    def __len__(self) -> int:
        """Count the keys that were new when added."""
        return sum(keys for _, keys in self._contents.counts)

    def _in_older(self, where: list[int], hashed: int) -> bool:
        """Whether an older layer has a key; its positions are a part of ``where``."""
        start, other = where[0], where[self._other]
        for pages, count, hashes, load in self._older:
            page = pages[hashed % count]
            if page is None:
                page = load(hashed % count)
            # Most keys that are not here fail at one of two positions.
            if page[start] and page[other] and page[where[:hashes]].all():
                return True
        return False

    def _guard(self, where: list[int], hashed: int) -> bool:
        """Ask what stands between a key unknown to the newest layer and its entry.

        True if an older layer has it. Raises if nothing may be added.
        """
        if self._in_older(where, hashed):
            return True
        if self._store is not None and self._store.readonly:
            raise StoreError(f"{self._store.path} was opened read-only")
        if self._full:
            raise FilterFullError(
                f"the filter holds its capacity of {self.capacity:,} keys and growth"
                ' = "error"; make a larger one or allow growth'
            )
        return False

    def _overflow(self) -> None:
        """Do what is due after so many new keys."""
        if self._when_full is None:
            self.checkpoint()
        else:
            self._when_full()

    # Growth

    def _aim(self) -> None:
        """Point the hot path at the newest layer, after adding one if it is full."""
        newest = self._contents.newest
        left = newest.geometry.capacity - newest.keys
        readonly = self._store is not None and self._store.readonly
        if left <= 0 and self._growth == "grow" and not readonly:
            newest = self._grow()
            left = newest.geometry.capacity
        self._full = left <= 0 and self._growth == "error"
        if left <= 0 and not readonly:
            self._warn_full()
        # Newest first: it is the largest, and most of what is seen is in it.
        self._older = [
            (layer.pages, len(layer.pages), layer.geometry.hashes, layer.load)
            for layer in self._contents.layers[-2::-1]
        ]
        # A second position that a key has in every layer.
        self._other = min(self._contents.layers[0].geometry.hashes, hashing.FIELDS) - 1
        self._guarded = bool(self._older) or self._full or readonly
        self._pages = newest.pages
        self._page_count = len(newest.pages)
        self._head = newest.head
        self._tail = newest.tail
        self._load = newest.load
        # A checkpoint holds no more news than its sweep can follow.
        room = min(MAX_PENDING, MAX_SWEEP * newest.backlog_limit // self._page_count)
        if self.confirm > 0:
            room = min(room, int(MAX_EXACT_PENDING / self.confirm))
        self._room = min(room, left) if left > 0 else room

    def _grow(self) -> Layer:
        layer = self._contents.add_layer()
        logger.info(
            "The filter reached its capacity at %(keys)d keys; layer %(number)d, for"
            " %(capacity)d more, keeps the false-positive probability below %(fpp)g."
            " A larger capacity from the start would save memory and time.",
            {
                "keys": len(self),
                "number": layer.number + 1,
                "capacity": layer.geometry.capacity,
                "fpp": self.fpp,
            },
        )
        return layer

    def _warn_full(self) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "The filter holds its capacity of %(capacity)d keys and may not grow"
                ' (growth = "%(growth)s"): its false-positive probability of %(fpp)g'
                " holds no longer",
                {
                    "capacity": self.capacity,
                    "growth": self._growth,
                    "fpp": self.fpp,
                },
            )

    # Durability

    def checkpoint(self) -> None:
        """Make everything added so far durable, in one transaction.

        Happens by itself after at most 10,000 new keys, and at close. If it fails
        (disk full), nothing is lost: the last checkpoint stands, and the next one
        tries again.
        """
        self._contents.checkpoint()
        self._aim()

    def share_store(self, when_full: Callable[[], None]) -> Store | None:
        """Leave the checkpoints to somebody who has more for the same transaction.

        From now on nothing here is committed, at close neither, unless
        :meth:`change` is. ``when_full`` is called when a checkpoint is due, in the
        middle of :meth:`add`: it should be made soon afterwards. Returns the store
        (None: the filter is in memory).
        """
        self._when_full = when_full
        return self._store

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return self._contents.changed

    def change(self) -> Change:
        """Return what the next checkpoint writes, for a common transaction."""
        return _Shared(self, self._contents.change())

    def compact(self) -> None:
        """Fold the journal into the pages and shrink the data file."""
        store = self._durable("compact")
        self._contents.fold()
        store.compact()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Checkpoint, and write a compact copy to the new store ``path``.

        It may be called while the filter is in use, and on a read-only one while
        another process writes.
        """
        store = self._durable("backup")
        self._contents.checkpoint()
        store.copy(Path(path))

    def _durable(self, verb: str) -> Store:
        if self._store is None:
            raise StoreError(f"{verb}: the filter is in memory only, or closed")
        return self._store

    # What is known about it

    @property
    def capacity(self) -> int:
        """n: expected keys of the first layer."""
        return self.parameters.capacity

    @property
    def fpp(self) -> float:
        """p: false-positive probability of the whole filter."""
        return self.parameters.fpp

    @property
    def confirm(self) -> float:
        """Share of keys kept exactly."""
        return self.parameters.confirm

    @property
    def key(self) -> bytes:
        """The secret; whoever knows it can make keys that collide."""
        return self.parameters.key

    @property
    def identity(self) -> dict[str, Any]:
        """What the creator of the store called it (empty in memory)."""
        return {} if self._store is None else dict(self._store.header["identity"])

    @property
    def notes(self) -> dict[str, Any]:
        """A small JSON object of the caller's own, saved with each checkpoint."""
        return self._contents.notes

    def record(self, name: str) -> dict[str, Any] | None:
        """Return what somebody else keeps in the store under this name."""
        if self._store is None:
            return None
        with self._store.snapshot() as snapshot:
            return snapshot.record(name)

    @property
    def layer_count(self) -> int:
        """Layers so far."""
        return len(self._contents.layers)

    @property
    def memory_bytes(self) -> int:
        """Bytes that the pages loaded so far take."""
        return sum(layer.memory_bytes() for layer in self._contents.layers)

    def current_fpp(self) -> float:
        """Return the rate calculated from the present number of keys."""
        rates = (shape.rate(keys) for shape, keys in self._contents.counts)
        return min(1.0, sum(rates))

    def expected_loss(self) -> float:
        """Return how many new keys were called seen so far, by expectation."""
        return (1 - self.confirm) * sizing.expected_loss(self._contents.counts)

    def estimated_keys(self) -> float:
        """Return the number of keys estimated from the bits that are set."""
        return sum(
            layer.geometry.keys_for_fill(layer.fill())
            for layer in self._contents.layers
        )

    def info(self) -> FilterInfo:
        """Return what is given, calculated and measured about the filter."""
        contents = self._contents
        trials, hits = contents.trials, contents.false_positives
        low, high = wilson_interval(hits, trials) if trials else (None, None)
        return FilterInfo(
            path=None if self._store is None else str(self._store.path),
            capacity=self.capacity,
            fpp=self.fpp,
            growth=self._growth,
            confirm=self.confirm,
            keys=len(self),
            estimated_keys=self.estimated_keys(),
            current_fpp=self.current_fpp(),
            expected_loss=self.expected_loss(),
            trials=trials,
            false_positives=hits,
            measured_fpp=hits / trials if trials else None,
            measured_low=low,
            measured_high=high,
            exact_keys=len(contents.exact),
            journal_keys=sum(layer.journal_keys for layer in contents.layers),
            memory_bytes=self.memory_bytes,
            disk_bytes=0 if self._store is None else self._store.disk_bytes(),
            layers=[
                LayerInfo(
                    capacity=shape.capacity,
                    keys=keys,
                    fpp=shape.fpp,
                    hashes=shape.hashes,
                    pages=shape.pages,
                    bits_per_key=shape.bits_per_key,
                    fill=layer.fill(),
                )
                for layer, (shape, keys) in zip(
                    contents.layers, contents.counts, strict=True
                )
            ],
        )

    # Set algebra

    def is_compatible(self, other: BloomFilter) -> bool:
        """Whether both have equal :attr:`parameters`, so that they can be combined."""
        return self.parameters == other.parameters

    def __eq__(self, other: object) -> bool:
        """Whether both are compatible and have the same bits."""
        if not isinstance(other, BloomFilter):
            return NotImplemented
        ours, theirs = self._contents.layers, other._contents.layers
        return (
            self.is_compatible(other)
            and len(ours) == len(theirs)
            and all(
                mine == yours
                for layer, match in zip(ours, theirs, strict=True)
                for mine, yours in zip(
                    layer.all_pages(), match.all_pages(), strict=True
                )
            )
        )

    def copy(self) -> BloomFilter:
        """Return a copy in memory."""
        empty = BloomFilter(
            self.capacity,
            self.fpp,
            growth=self._growth,
            confirm=self.confirm,
            key=self.key,
        )
        return empty.__ior__(self)

    def union(self, other: BloomFilter) -> BloomFilter:
        """Return a filter in memory with the keys of both."""
        return self.copy().__ior__(other)

    __or__ = union

    def __ior__(self, other: BloomFilter) -> BloomFilter:  # type: ignore[misc]
        """Add all keys of a compatible filter; the count becomes an estimate.

        In a store this is durable when it returns. After a crash meanwhile some
        of the other's keys may be missing: do it again.
        """
        if not self.is_compatible(other):
            raise IncompatibleFilterError(
                f"the filters differ: {self._described()} and {other._described()};"
                " make both with the same parameters and the same `key`"
            )
        self._contents.merge(other._contents)
        self._aim()
        return self

    def _described(self) -> str:
        # A hash of the key tells keys apart without giving them away.
        mark = hashing.digest(self._secret)[:4].hex()
        return (
            f"capacity {self.capacity:,}, fpp {self.fpp:g}, confirm {self.confirm:g},"
            f" key #{mark}"
        )

    def clear(self) -> None:
        """Forget all keys; parameters, key and store stay."""
        self._contents.clear()
        self._aim()
