"""Contents: all that a filter remembers, how it reaches the store, and its figures."""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import chain, starmap, takewhile, zip_longest
from operator import eq
from typing import TYPE_CHECKING, Any

from bloomdupe.filter.hashing import FIELDS
from bloomdupe.filter.layer import Layer, Write, backlog_limit
from bloomdupe.filter.parameters import Parameters
from bloomdupe.filter.sizing import Geometry, rate_and_loss
from bloomdupe.printable import logger_of
from bloomdupe.store.format import (
    BLOCKS,
    EXACT,
    JOURNAL,
    JOURNAL_KEY,
    META,
    meta_records,
    packed,
    unpacked,
)
from bloomdupe.store.store import Part

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from bitarray import bitarray
    from typing_extensions import Self

    from bloomdupe.store.snapshot import Snapshot
    from bloomdupe.store.store import Changes, Store

    Counts: TypeAlias = Sequence[tuple[Geometry, int]]
    """Shape and number of keys of each layer, oldest first."""

logger = logger_of(__name__)

RECORD = "filter"
RECORD_FIELDS = {
    "layers", "swept", "blocks", "journal_end", "journal_entries", "exact", "notes",
}  # fmt: skip

MAX_PENDING = 10_000
"""New keys after which a checkpoint happens by itself."""

MAX_EXACT_PENDING = 1_000
"""New exact keys after which a checkpoint happens: each dirties a page of its own, and
LMDB keeps the dirty pages of a transaction in memory."""

MAX_SWEEP = 128
"""Blocks (8 kB each) that one checkpoint writes at most."""

ROUND = 1 << 32
"""A round of the sweep in ``swept``; the block where it stands is the rest."""


def empty_record(parameters: Parameters) -> dict[str, Any]:
    """Return the record of a filter without keys; see :class:`Contents`."""
    return {
        "layers": [[*parameters.geometry(0), 0]],
        "swept": 0,
        "blocks": 0,
        "journal_end": 0,
        "journal_entries": 0,
        "exact": 0,
        "notes": {},
    }


def stored_record(snapshot: Snapshot) -> dict[str, Any]:
    """Return the record of a filter; refuse one that is missing, or lacks a field."""
    record = snapshot.record(RECORD)
    if record is None:
        raise snapshot.damaged("the record of the filter is missing")
    if lacking := sorted(RECORD_FIELDS - record.keys()):
        raise snapshot.damaged(f"the record of the filter lacks {', '.join(lacking)}")
    return record


def counts_of(record: dict[str, Any]) -> Counts:
    """Return shapes and numbers of keys of the layers in a record."""
    return [(Geometry(*shape), keys) for *shape, keys in record["layers"]]


class Contents:
    """Layers, exact keys and counts, and the changes since the last checkpoint.

    **Journal and sweep.** A new key dirties a block of 8 kB for 4 bytes of news. So
    a checkpoint appends the new digests (16 bytes) to a journal, and a *sweep*
    goes round and round over the blocks of all layers, like the hand of a clock, a few
    blocks per checkpoint, and writes those that changed. The hand's speed follows the
    number of new keys: one round per :func:`backlog_limit` of them. When it has gone
    round once since a journal entry was written, the entry's digests are all in
    stored blocks, and the entry goes. So the journal never holds much more than that
    many digests, every transaction is small, and nothing stalls.

    The store's record ``filter`` is a JSON object:

    ``layers``           capacity, fpp, hashes, blocks and keys of each, oldest first
    ``swept``            rounds of the sweep, times :data:`ROUND`, and blocks since
    ``blocks``            blocks stored
    ``journal_end``      sequence number of the next journal entry
    ``journal_entries``  entries in the journal
    ``exact``            identities of exact keys
    ``notes``            a small object of the caller's own
    """

    __hash__ = None  # type: ignore[assignment]

    def _begin(
        self, parameters: Parameters, store: Store | None = None, memory: int = 0
    ) -> None:
        """Read a filter from its store, or begin a filter in memory (None).

        Of a store's layers, the first layers that fit into ``memory`` bytes together
        keep their blocks in memory. All layers of a remote store do.
        """
        self.parameters = parameters
        self.capacity, self.fpp = parameters.capacity, parameters.fpp
        self.exact, self.key = parameters.exact, parameters.key
        self.store = store
        self._readonly = store is not None and store.readonly
        self._memory = memory
        if store is None:
            self._take(empty_record(parameters))
        else:
            with store.snapshot() as snapshot:
                self._restore(snapshot)
        self._point_at_newest()

    def _take(self, record: dict[str, Any]) -> None:
        self._record = record
        """As it stands in the store."""
        self.layers: list[Layer] = []
        for shape, keys in counts_of(record):
            self._append(shape).keys = keys
        self.notes: dict[str, Any] = deepcopy(record["notes"])
        """A small JSON object of the caller's own, saved with each checkpoint."""
        self._exact: set[bytes] = set()
        """Identities added since the last checkpoint; without a store: all."""
        self._journal: deque[tuple[int, int]] = deque()
        """Of each entry, oldest first: sequence, and ``swept`` when it was written."""
        self._debt = 0.0
        """Blocks that the sweep is behind."""

    def _restore(self, snapshot: Snapshot) -> None:
        record = stored_record(snapshot)
        snapshot.expect_entries(BLOCKS, record["blocks"])
        snapshot.expect_entries(JOURNAL, record["journal_entries"])
        snapshot.expect_entries(EXACT, record["exact"])
        self._take(record)
        for key, value in snapshot.records(JOURNAL):
            (sequence,) = JOURNAL_KEY.unpack(key)
            layer, swept, digests = unpacked(value)
            if layer >= len(self.layers):
                raise snapshot.damaged(f"journal entry {sequence} has no layer")
            self.layers[layer].replay(digests)
            self._journal.append((sequence, swept))

    # Layers

    @property
    def counts(self) -> Counts:
        """Shape and number of keys of each layer, oldest first."""
        return [
            (layer.geometry, layer.keys + len(layer.pending)) for layer in self.layers
        ]

    def __len__(self) -> int:
        """Count the keys that were new when added."""
        return sum(keys for _, keys in self.counts)

    @property
    def newest(self) -> Layer:
        """The layer that takes new keys."""
        return self.layers[-1]

    def _append(self, shape: Geometry) -> Layer:
        used = sum(layer.geometry.memory for layer in self.layers)
        store = self.store
        fits = store is None or store.remote or used + shape.memory <= self._memory
        self.layers.append(Layer(len(self.layers), shape, store, keeps_blocks=fits))
        return self.newest

    def _point_at_newest(self) -> None:
        """Point the hot path at the newest layer, after adding one if it is full."""
        newest = self.newest
        room = newest.geometry.capacity - newest.keys
        if room <= len(newest.pending) and not self._readonly:
            newest = self._append(self.parameters.geometry(len(self.layers)))
            say_grown(self.fpp, self.counts)
            room = newest.geometry.capacity
        # Newest first: it is the largest, and has most of the keys.
        self._older = [
            (layer.blocks, len(layer.blocks), layer.geometry.hashes, layer.load)
            for layer in self.layers[-2::-1]
        ]
        # A second position that a key has in every layer.
        self._other = min(self.layers[0].geometry.hashes, FIELDS) - 1
        self._guarded = bool(self._older) or self._readonly
        self._pending = newest.pending
        self._blocks = newest.blocks
        self._block_count = len(newest.blocks)
        self._unpack = newest.unpack
        self._further = newest.further
        self._load = newest.load
        # A checkpoint holds no more news than its sweep can follow.
        most = MAX_SWEEP * backlog_limit(newest.geometry) // self._ring
        if self.exact:
            most = min(most, MAX_EXACT_PENDING)
        self._room = min(room, most, MAX_PENDING)
        """Pending keys with which a checkpoint is due."""

    def _all_blocks(self) -> Iterator[bitarray]:
        return chain.from_iterable(layer.all_blocks() for layer in self.layers)

    def __eq__(self, other: object) -> bool:
        """Whether both have equal parameters, and the same bits in all layers."""
        if not isinstance(other, Contents):
            return NotImplemented
        both = zip_longest(self._all_blocks(), other._all_blocks())
        return self.parameters == other.parameters and all(starmap(eq, both))

    def __ior__(self, other: Self) -> Self:
        """Add all keys of a compatible filter; the count becomes an estimate.

        In a store this is durable when it returns. After a crash meanwhile some
        of the other's keys may be missing: do it again. Raises
        :class:`~bloomdupe.errors.IncompatibleFilterError` if their parameters differ.
        """
        self.parameters.check_compatible(other.parameters)
        self.checkpoint()
        for layer, (shape, keys) in zip(other.layers, other.counts, strict=True):
            if layer.number == len(self.layers):
                self._append(shape)
            self.layers[layer.number].merge(layer, keys)
        theirs = set(other._exact)
        if other.store is not None:
            with other.store.snapshot() as snapshot:
                theirs.update(snapshot.keys(EXACT))
        self._exact.update(one for one in theirs if not self._is_exact(one))
        self.fold()
        self._point_at_newest()
        return self

    def _is_exact(self, identity: bytes) -> bool:
        """Whether a key is exact; see :func:`~bloomdupe.filter.hashing.exact_id`."""
        if identity in self._exact:
            return True
        if self.store is None:
            return False
        with self.store.snapshot() as snapshot:
            return snapshot.stored(EXACT, identity) is not None

    # Reaching the store

    @property
    def _ring(self) -> int:
        """Blocks of all layers."""
        return sum(layer.geometry.blocks for layer in self.layers)

    def checkpoint(self) -> None:
        """Make everything added so far durable, in one transaction.

        Happens by itself after at most 10,000 new keys, and at close. If it fails
        (disk full), nothing is lost: the last checkpoint stays valid, and the next
        checkpoint tries again.
        """
        if self.store is not None:
            if self.changed:
                self.store.commit(self.prepare())
            return
        for layer in self.layers:
            layer.keys += len(layer.pending)
            layer.pending.clear()
        self._point_at_newest()

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(
            any(layer.pending for layer in self.layers)
            or self._exact
            or self.notes != self._record["notes"]
        )

    def prepare(self, *, everything: bool = False) -> Part:
        """Return the filter's part of the next checkpoint, and change nothing.

        Keys may be added before it is committed, and before its ``done`` is called:
        they belong to the checkpoint after it. Only the part that was prepared last can
        be written; earlier parts that are not done are given up. ``everything`` sweeps
        as many blocks as one transaction may hold.
        """
        record, journal, before = self._record, self._journal, self._record["swept"]
        end = record["journal_end"]
        news = [(layer, len(layer.pending)) for layer in self.layers if layer.pending]
        entries = {
            sequence: packed((layer.number, before, b"".join(layer.pending)))
            for sequence, (layer, _) in enumerate(news, end)
        }
        identities = dict.fromkeys(self._exact, b"")
        limit = backlog_limit(self.newest.geometry)
        debt = self._debt + sum(many for _, many in news) * self._ring / limit
        passed, swept, writes = self._sweep(self._ring if everything else int(debt))
        gone = [
            sequence
            for sequence, _ in takewhile(lambda one: swept - one[1] >= ROUND, journal)
        ]
        after = {
            "layers": [[*shape, keys] for shape, keys in self.counts],
            "swept": swept,
            "blocks": record["blocks"] + sum(write.is_new for write in writes),
            "journal_end": end + len(entries),
            "journal_entries": len(journal) + len(entries) - len(gone),
            "exact": record["exact"] + len(identities),
            "notes": deepcopy(self.notes),
        }

        def done() -> None:
            for layer, many in news:
                layer.keys += many
                del layer.pending[:many]
            for one in writes:
                one.layer.written(one)
            for _ in gone:
                journal.popleft()
            journal.extend((sequence, before) for sequence in entries)
            self._debt = max(0.0, debt - passed)
            self._exact.difference_update(identities)
            self._record = after
            self._point_at_newest()

        journaled = {**entries, **dict.fromkeys(gone)}
        changes: dict[bytes, Changes] = {
            JOURNAL: {JOURNAL_KEY.pack(one): journaled[one] for one in journaled},
            BLOCKS: {one.key: one.bits for one in writes},
            EXACT: identities,
            META: meta_records({RECORD: after}),
        }
        return Part(changes=changes, done=done)

    def _sweep(self, due: int) -> tuple[int, int, list[Write]]:
        """Return blocks passed, ``swept`` then, and what is to be written of them."""
        rounds, hand = divmod(self._record["swept"], ROUND)
        passed, ring = 0, self._ring
        writes: list[Write] = []
        while passed < min(due, ring) and len(writes) < MAX_SWEEP:
            layer, number = self._place(hand)
            write = layer.write(number)
            if write is not None:
                writes.append(write)
            passed += 1
            hand += 1
            if hand == ring:
                rounds, hand = rounds + 1, 0
        return passed, rounds * ROUND + hand, writes

    def _place(self, hand: int) -> tuple[Layer, int]:
        """Return layer and number of a block among those of all layers."""
        for layer in self.layers:
            if hand < layer.geometry.blocks:
                return layer, hand
            hand -= layer.geometry.blocks
        raise ValueError("there are not so many blocks")

    def fold(self) -> None:
        """Write every changed block, slice by slice; this empties the journal."""
        if self.store is None:
            return
        # Pending keys go into the journal first: written on the way, they would be
        # newer than the blocks that are written by then.
        self.checkpoint()
        goal = self._record["swept"] + ROUND
        while self._record["swept"] < goal:
            self.store.commit(self.prepare(everything=True))

    def clear(self) -> None:
        """Forget all keys, here and in the store; parameters and key stay."""
        record = empty_record(self.parameters)
        if self.store is not None:
            changes = {META: meta_records({RECORD: record})}
            self.store.commit(Part(cleared=(BLOCKS, JOURNAL, EXACT), changes=changes))
        self._take(record)
        self._point_at_newest()


def say_grown(fpp: float, counts: Counts) -> None:
    """Say that the newest layer was added, because the others are full."""
    logger.info(
        "The filter reached its capacity at %(keys)d keys; layer %(number)d, for"
        " %(capacity)d more, keeps the false-positive probability below %(fpp)g."
        " A larger capacity from the start would save memory and time.",
        {
            "keys": sum(keys for _, keys in counts),
            "number": len(counts),
            "capacity": counts[-1][0].capacity,
            "fpp": fpp,
        },
    )


@dataclass(frozen=True)
class FilterInfo:
    """A filter at one moment. Sizes are in bytes, rates are probabilities."""

    path: str | None
    capacity: int
    """Given: expected keys of the first layer (n)."""
    fpp: float
    """Given: false-positive probability of the whole filter (p)."""
    exact: bool
    keys: int
    """Counted: keys that were new when added."""
    current_fpp: float
    """Calculated: rate at the present number of keys."""
    expected_loss: float
    """Calculated: new keys called seen so far."""
    exact_keys: int
    """Exact keys."""
    disk_bytes: int
    """Size of the store's data file."""
    layers: Sequence[dict[str, Any]]
    """Of each layer: its :class:`~bloomdupe.filter.sizing.Geometry`, its keys, and bits
    per key at capacity."""

    @classmethod
    def of(
        cls,
        path: str | None,
        parameters: Parameters,
        parts: Sequence[Counts],
        *,
        exact_keys: int = 0,
        disk_bytes: int = 0,
    ) -> Self:
        """Return the figures of a filter, or of several that share the keys.

        ``parts`` are the layers of each of them.
        """
        keys = [sum(number for _, number in part) for part in parts]
        figures = [rate_and_loss(part) for part in parts]
        # The next key goes to any of them, as the keys before did.
        current = sum(rate * n for (rate, _), n in zip(figures, keys, strict=True))
        return cls(
            path=path,
            capacity=parameters.capacity * len(parts),
            fpp=parameters.fpp,
            exact=parameters.exact,
            keys=sum(keys),
            current_fpp=current / max(1, sum(keys)),
            expected_loss=0.0 if parameters.exact else sum(one for _, one in figures),
            exact_keys=exact_keys,
            disk_bytes=disk_bytes,
            layers=[
                {**shape._asdict(), "keys": n, "bits_per_key": shape.bits_per_key}
                for shape, n in chain.from_iterable(parts)
            ],
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return asdict(self)


def info_of_records(
    path: str, stores: Sequence[Store], records: Sequence[dict[str, Any]]
) -> FilterInfo:
    """Return the figures of one filter in a store, or of several that share the keys.

    No block and no journal is read. See :class:`Contents` for the records.
    """
    return FilterInfo.of(
        path,
        Parameters.from_header(stores[0].header),
        [*map(counts_of, records)],
        exact_keys=sum(record["exact"] for record in records),
        disk_bytes=sum(store.disk_bytes() for store in stores),
    )
