"""Contents: all that a filter remembers, and how it reaches the store."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from bloomdupe.errors import StoreError
from bloomdupe.filter.exact import ExactKeys
from bloomdupe.filter.hashing import DIGEST_BYTES
from bloomdupe.filter.layer import Layer, LayerState
from bloomdupe.filter.mapped_layer import MappedLayer
from bloomdupe.printable import logger_of
from bloomdupe.store.format import EXACT, JOURNAL, PAGES, read_journal
from bloomdupe.store.participant import Part
from bloomdupe.store.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.filter.parameters import Parameters
    from bloomdupe.filter.sizing import Geometry
    from bloomdupe.store.batch import Batch
    from bloomdupe.store.store import Store

logger = logger_of(__name__)

RECORD = "filter"


def empty_record(parameters: Parameters, journal_end: int = 0) -> dict[str, Any]:
    """Return the record of a filter without keys; see :class:`Contents`."""
    return {
        "layers": [Layer(0, parameters.geometry(0)).state],
        "journal_end": journal_end,
        "journal_entries": 0,
        "exact": 0,
        "notes": {},
    }


class Contents:
    """Layers, exact keys and counts, and the changes since the last checkpoint.

    The store's record ``filter`` is a JSON object:

    ``layers``           :class:`~bloomdupe.filter.layer.LayerState`, oldest first
    ``journal_end``      sequence number of the next journal entry
    ``journal_entries``  entries in the journal
    ``exact``            identities kept exactly
    ``notes``            a small object of the caller's own
    """

    def __init__(
        self, parameters: Parameters, store: Store | None, memory: int = 0
    ) -> None:
        """Read a filter from its store, or begin a filter in memory (None).

        Of a store's layers, the first layers that fit into ``memory`` bytes together
        keep their pages in memory; the other layers answer from LMDB's map. All layers
        of a remote store keep them.
        """
        self.parameters = parameters
        self.store = store
        self._memory = memory
        self.layers: list[Layer] = []
        self._append(parameters.geometry(0))
        self.exact = ExactKeys(parameters.key, store)
        self.notes: dict[str, Any] = {}
        self._noted: dict[str, Any] = {}
        self._journal_end = 0
        self._prepared: Part | None = None
        if store is not None:
            self._restore(store)

    def _restore(self, store: Store) -> None:
        with store.snapshot() as snapshot:
            record = snapshot.record(RECORD)
            if record is None:
                raise store.damaged("the record of the filter is missing")
            states = [LayerState(*state) for state in record["layers"]]
            snapshot.expect_entries(PAGES, sum(state.stored for state in states))
            snapshot.expect_entries(JOURNAL, record["journal_entries"])
            snapshot.expect_entries(EXACT, record["exact"])
            self.layers = []
            for state in states:
                self._append(state.geometry).restore(state)
            for key, value in snapshot.records(JOURNAL):
                entry = read_journal(key, value)
                if entry.layer >= len(self.layers) or len(entry.digests) % DIGEST_BYTES:
                    raise store.damaged(f"journal entry {entry.sequence} has no layer")
                self.layers[entry.layer].replay(entry)
        self.exact.stored = record["exact"]
        self._journal_end = record["journal_end"]
        self.notes = record["notes"]
        self._noted = deepcopy(self.notes)

    @property
    def newest(self) -> Layer:
        """The layer that takes new keys."""
        return self.layers[-1]

    @property
    def counts(self) -> list[tuple[Geometry, int]]:
        """Shape and number of keys of each layer, oldest first."""
        return [
            (layer.geometry, layer.keys + len(layer.pending)) for layer in self.layers
        ]

    @property
    def memory_bytes(self) -> int:
        """Bytes that the pages loaded so far take."""
        return sum(layer.memory_bytes() for layer in self.layers)

    @property
    def disk_bytes(self) -> int:
        """Size of the store's data file; 0 in memory."""
        return 0 if self.store is None else self.store.disk_bytes()

    def add_layer(self) -> Layer:
        """Begin another layer, because the newest layer is full, and say so."""
        layer = self._append(self.parameters.geometry(len(self.layers)))
        say_grown(self.parameters, self.counts)
        return layer

    def _append(self, shape: Geometry) -> Layer:
        number = len(self.layers)
        used = sum(layer.geometry.memory for layer in self.layers)
        if (
            self.store is None
            or self.store.remote
            or used + shape.memory <= self._memory
        ):
            self.layers.append(Layer(number, shape, self.store))
        else:
            self.layers.append(MappedLayer(number, shape, self.store))
        return self.newest

    def same_bits(self, others: Contents) -> bool:
        """Whether both have equal parameters, and the same bits in all layers."""
        return (
            self.parameters == others.parameters
            and len(self.layers) == len(others.layers)
            and all(
                page == other
                for layer, match in zip(self.layers, others.layers, strict=True)
                for page, other in zip(
                    layer.all_pages(), match.all_pages(), strict=True
                )
            )
        )

    def merge(self, others: Contents) -> None:
        """Add everything that ``others`` remember, and make it durable.

        Raises :class:`~bloomdupe.errors.IncompatibleFilterError` if their parameters
        differ.
        """
        self.parameters.check_compatible(others.parameters)
        self.checkpoint()
        for layer, (shape, keys) in zip(others.layers, others.counts, strict=True):
            if layer.number == len(self.layers):
                self._append(shape)
            self.layers[layer.number].merge(layer, keys)
        for identity in others.exact:
            self.exact.add_id(identity)
        self.fold()

    def __len__(self) -> int:
        """Count the keys that were new when added."""
        return sum(keys for _, keys in self.counts)

    # Reaching the store

    def checkpoint(self) -> None:
        """Make all changes durable in one transaction, where there is a store."""
        if self.store is None:
            for layer in self.layers:
                layer.count_pending()
        elif self.changed:
            self.store.commit(self.prepare())

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(
            any(layer.pending for layer in self.layers)
            or self.exact.changed
            or self.notes != self._noted
        )

    def prepare(self, *, everything: bool = False) -> Part:
        """Return the part of the next checkpoint, and change nothing.

        ``everything`` sweeps as many pages as one transaction may hold. A part that was
        prepared before and is not done yet is given up.
        """
        new_keys = sum(len(layer.pending) for layer in self.layers)
        end = self._journal_end
        backlog = 0
        parts = []
        states = []
        for layer in self.layers:
            state = layer.state
            backlog += layer.backlog
            if layer is self.newest or layer.pending or layer.backlog or everything:
                part = layer.prepare(end, new_keys, everything=everything)
                parts.append(part)
                state = part.state
                end += part.entry is not None
                backlog += (part.entry is not None) - len(part.obsolete)
            states.append(state)
        identities = self.exact.pending()
        record = {
            "layers": states,
            "journal_end": end,
            "journal_entries": backlog,
            "exact": self.exact.stored + len(identities),
            "notes": deepcopy(self.notes),
        }
        return self._part_of(parts, identities, record)

    def _part_of(
        self, layers: Sequence[Part], identities: list[bytes], record: dict[str, Any]
    ) -> Part:
        """Return a part of the checkpoint, made of the parts of layers."""
        part = self._prepared = Part()

        def write(batch: Batch) -> None:
            self._expect(part)
            for layer in layers:
                layer.apply(batch)
            batch.add_exact(identities)
            batch.put_record(RECORD, record)

        def done() -> None:
            self._expect(part)
            self._prepared = None
            for layer in layers:
                layer.done()
            self._journal_end = record["journal_end"]
            self.exact.done(identities)
            self._noted = record["notes"]

        part.write, part.done = write, done
        return part

    def _expect(self, part: Part) -> None:
        """Refuse a part that was given up: later parts build on its base."""
        if self._prepared is not part:
            raise StoreError(
                "a checkpoint that was given up must not be written: another one has"
                " been prepared since"
            )

    def fold(self) -> None:
        """Write every changed page, slice by slice; this empties the journal."""
        if self.store is None:
            return
        # Pending keys go into the journal first: written on the way, they would be
        # newer than the pages that are written by then.
        self.checkpoint()
        goals = [(layer, layer.swept + len(layer.pages)) for layer in self.layers]
        left = sum(goal - layer.swept for layer, goal in goals)
        progress = Progress(f"Folding the journal of {self.store.shown}", left, "pages")
        while left:
            self.store.commit(self.prepare(everything=True))
            before = left
            left = sum(max(0, goal - layer.swept) for layer, goal in goals)
            progress.passed(before - left)

    def clear(self) -> None:
        """Forget all keys, here and in the store."""
        if self.store is not None:
            record = empty_record(self.parameters, self._journal_end)
            self._prepared = None

            def write(batch: Batch) -> None:
                batch.clear(PAGES, JOURNAL, EXACT)
                batch.put_record(RECORD, record)

            self.store.commit(Part(write=write))
        self.layers = []
        self._append(self.parameters.geometry(0))
        self.exact.clear()
        self.notes.clear()
        self._noted = {}


def say_grown(parameters: Parameters, counts: Sequence[tuple[Geometry, int]]) -> None:
    """Say that the newest layer was added, because the others are full."""
    logger.info(
        "The filter reached its capacity at %(keys)d keys; layer %(number)d, for"
        " %(capacity)d more, keeps the false-positive probability below %(fpp)g."
        " A larger capacity from the start would save memory and time.",
        {
            "keys": sum(keys for _, keys in counts),
            "number": len(counts),
            "capacity": counts[-1][0].capacity,
            "fpp": parameters.fpp,
        },
    )
