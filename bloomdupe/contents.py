"""Contents: all that a filter remembers, and how it reaches the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.exact import ExactKeys
from bloomdupe.format import JournalEntry
from bloomdupe.layer import Layer, LayerState, Sweep

if TYPE_CHECKING:
    from bloomdupe.batch import Batch
    from bloomdupe.parameters import Parameters
    from bloomdupe.sizing import Geometry
    from bloomdupe.storage import Store

__all__ = ["Checkpoint", "Contents", "empty_record"]

RECORD = "filter"


def empty_record(parameters: Parameters, journal_end: int = 0) -> dict[str, Any]:
    """Return the record of a filter without keys; see :class:`Contents`."""
    return {
        "layers": [Layer(0, parameters.geometry(0)).state],
        "journal_end": journal_end,
        "journal_entries": 0,
        "exact": 0,
        "trials": 0,
        "false_positives": 0,
        "notes": {},
    }


class Checkpoint(NamedTuple):
    """Everything that one checkpoint writes (a :class:`bloomdupe.storage.Change`)."""

    contents: Contents
    entry: JournalEntry | None
    new_keys: int
    sweeps: list[tuple[Layer, Sweep]]
    identities: list[bytes]
    record: dict[str, Any]

    def write(self, batch: Batch) -> None:
        """Put it into a transaction."""
        if self.entry is not None:
            batch.put_journal(self.entry)
        for layer, sweep in self.sweeps:
            for number, value in sweep.writes:
                batch.put_page(layer.number, number, value)
            for sequence in sweep.obsolete:
                batch.delete_journal(sequence)
        batch.put_exact(self.identities)
        batch.put_record(RECORD, self.record)

    def done(self) -> None:
        """Take note that it is durable."""
        self.contents.done(self)


class _Clearing(NamedTuple):
    """Empties the store (a :class:`bloomdupe.storage.Change`)."""

    record: dict[str, Any]

    def write(self, batch: Batch) -> None:
        batch.clear()
        batch.put_record(RECORD, self.record)

    def done(self) -> None:
        pass


class Contents:
    """Layers, exact keys and counts; what is new in them since the last checkpoint.

    The store's record ``filter`` is a JSON object:

    ``layers``           a :class:`~bloomdupe.layer.LayerState` each, oldest first
    ``journal_end``      sequence number of the next journal entry
    ``journal_entries``  entries in the journal
    ``exact``            identities kept exactly
    ``trials``           keys that were new and are kept exactly
    ``false_positives``  those of them whose bits were all set already
    ``notes``            a small object of the caller's own
    """

    def __init__(self, parameters: Parameters, store: Store | None) -> None:
        self._parameters = parameters
        self._store = store
        self.layers = [Layer(0, parameters.geometry(0), store)]
        self.exact = ExactKeys(parameters.key, store)
        self.pending: list[bytes] = []
        """Digests added to the newest layer since the last checkpoint."""
        self.trials = 0
        self.false_positives = 0
        self.notes: dict[str, Any] = {}
        self._noted: dict[str, Any] = {}
        self._journal_end = 0
        if store is not None:
            self._restore(store)

    def _restore(self, store: Store) -> None:
        with store.snapshot() as snapshot:
            record = snapshot.record(RECORD)
            if record is None:
                raise store.damaged("the record of the filter is missing")
            states = [LayerState(*state) for state in record["layers"]]
            snapshot.expect_entries("pages", sum(state.stored for state in states))
            snapshot.expect_entries("journal", record["journal_entries"])
            snapshot.expect_entries("exact", record["exact"])
            self.layers = [
                Layer.restore(number, state, store)
                for number, state in enumerate(states)
            ]
            for entry in snapshot.journal():
                if entry.layer >= len(self.layers):
                    raise store.damaged(f"journal entry {entry.sequence} has no layer")
                self.layers[entry.layer].replay(entry)
        self.exact.stored = record["exact"]
        self.trials = record["trials"]
        self.false_positives = record["false_positives"]
        self._journal_end = record["journal_end"]
        self.notes = record["notes"]
        self._noted = dict(self.notes)

    @property
    def newest(self) -> Layer:
        """The layer that takes new keys."""
        return self.layers[-1]

    @property
    def counts(self) -> list[tuple[Geometry, int]]:
        """Shape and number of keys of each layer, oldest first."""
        counts = [(layer.geometry, layer.keys) for layer in self.layers]
        shape, keys = counts[-1]
        counts[-1] = (shape, keys + len(self.pending))
        return counts

    def add_layer(self) -> Layer:
        """Begin another layer, when nothing is pending."""
        number = len(self.layers)
        self.layers.append(
            Layer(number, self._parameters.geometry(number), self._store)
        )
        return self.newest

    def remember(self, key: bytes) -> None:
        """Keep a new key exactly."""
        self.trials += 1
        self.exact.add(key)

    # Reaching the store

    def checkpoint(self) -> None:
        """Make all changes durable in one transaction, where there is a store."""
        if self._store is None:
            self.newest.keys += len(self.pending)
            self.pending.clear()
        elif self.changed:
            self._store.commit(self.change())

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return bool(self.pending or self.exact.changed or self.notes != self._noted)

    def change(self, *, everything: bool = False) -> Checkpoint:
        """Work out what the next checkpoint writes, and change nothing.

        ``everything`` sweeps as many pages as one transaction may hold.
        """
        new_keys = len(self.pending)
        newest = self.newest
        entry = None
        if new_keys:
            entry = JournalEntry(
                self._journal_end, newest.number, newest.swept, b"".join(self.pending)
            )
        sweeps = []
        states = []
        for layer in self.layers:
            state = layer.state
            if layer is newest or layer.backlog or everything:
                keys = layer.keys + (new_keys if layer is newest else 0)
                sweep = layer.sweep(new_keys, keys, everything=everything)
                sweeps.append((layer, sweep))
                state = sweep.state
            states.append(state)
        added = 0 if entry is None else 1
        entries = added + sum(layer.backlog for layer in self.layers)
        identities = self.exact.pending()
        record = {
            "layers": states,
            "journal_end": self._journal_end + added,
            "journal_entries": entries - sum(len(s.obsolete) for _, s in sweeps),
            "exact": self.exact.stored + len(identities),
            "trials": self.trials,
            "false_positives": self.false_positives,
            "notes": dict(self.notes),
        }
        return Checkpoint(self, entry, new_keys, sweeps, identities, record)

    def done(self, change: Checkpoint) -> None:
        """Take note that a checkpoint is durable."""
        if change.entry is not None:
            self.newest.journalled(change.entry)
            self._journal_end += 1
        for layer, sweep in change.sweeps:
            layer.done(sweep, change.new_keys)
        self.pending.clear()
        self.exact.done(change.record["exact"])
        self._noted = change.record["notes"]

    def fold(self) -> None:
        """Write every changed page, slice by slice; this empties the journal."""
        if self._store is None:
            return
        goals = [(layer, layer.swept + len(layer.pages)) for layer in self.layers]
        while any(layer.swept < goal for layer, goal in goals):
            self._store.commit(self.change(everything=True))

    def clear(self) -> None:
        """Forget all keys, here and in the store."""
        if self._store is not None:
            record = empty_record(self._parameters, self._journal_end)
            self._store.commit(_Clearing(record))
        self.layers = [Layer(0, self._parameters.geometry(0), self._store)]
        self.pending.clear()
        self.exact.clear()
        self.trials = self.false_positives = 0
        self.notes.clear()
        self._noted = {}

    def merge(self, other: Contents) -> None:
        """Add everything that another filter with equal parameters remembers."""
        self.checkpoint()
        for theirs, (_, keys) in zip(other.layers, other.counts, strict=True):
            if theirs.number == len(self.layers):
                self.add_layer()
            self.layers[theirs.number].merge(theirs, keys)
        for identity in other.exact:
            self.exact.add_id(identity)
        self.fold()
