"""FilterInfo: the figures of a filter, given, counted, calculated and estimated."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from operator import mul
from typing import TYPE_CHECKING, Any

from bloomdupe.filter import sizing
from bloomdupe.filter.layer import LayerState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.filter.contents import Contents
    from bloomdupe.store.store import Store


@dataclass(frozen=True)
class LayerInfo:
    """One layer of a filter."""

    capacity: int
    """Keys it was sized for."""
    keys: int
    """Keys added to it."""
    fpp: float
    """Its share of the filter's false-positive probability."""
    hashes: int
    """Positions per key (k)."""
    pages: int
    """Pages of 8,168 bytes."""
    bits_per_key: float
    """m/n at capacity."""
    fill: float
    """Share of bits that are set, measured on at most 1,024 pages."""


@dataclass(frozen=True)
class FilterInfo:
    """A filter at one moment. Sizes are in bytes, rates are probabilities."""

    path: str | None
    capacity: int
    """Given: expected keys of the first layer."""
    fpp: float
    """Given: false-positive probability of the whole filter."""
    exact: bool
    keys: int
    """Counted: keys that were new when added."""
    estimated_keys: float
    """Estimated from the fill."""
    current_fpp: float
    """Calculated: rate at the present number of keys."""
    expected_loss: float
    """Calculated: new keys called seen so far."""
    exact_keys: int
    """Keys kept exactly."""
    journal_keys: int
    """Keys in the journal, not yet folded into stored pages."""
    memory_bytes: int
    """Pages in memory."""
    disk_bytes: int
    """Size of the store's data file."""
    layers: list[LayerInfo]

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class StoredFilter:
    """The figures of a filter that its record has; no page and no journal is read."""

    path: str
    capacity: int
    """Given: expected keys of the first layer (n)."""
    fpp: float
    """Given: false-positive probability of the whole filter (p)."""
    exact: bool
    keys: int
    """Keys that were new when added."""
    current_fpp: float
    """Calculated: rate at the present number of keys."""
    expected_loss: float
    """Calculated: new keys called seen so far."""
    exact_keys: int
    disk_bytes: int
    layers: list[dict[str, Any]]
    """Capacity, keys, fpp, hashes and pages of each."""

    @classmethod
    def of(
        cls, path: str, stores: Sequence[Store], records: Sequence[dict[str, Any]]
    ) -> StoredFilter:
        """Return those of one filter, or of several that share the keys.

        See :class:`bloomdupe.filter.contents.Contents` for the records.
        """
        headers = [store.header for store in stores]
        states = [[LayerState(*one) for one in record["layers"]] for record in records]
        counts = [[(one.geometry, one.keys) for one in some] for some in states]
        keys = [sum(one.keys for one in some) for some in states]
        rates = [
            min(1.0, sum(shape.rate(keys) for shape, keys in some)) for some in counts
        ]
        # The next key goes to any of them, as the keys before did.
        current = sum(map(mul, rates, keys)) / sum(keys) if any(keys[1:]) else rates[0]
        shown = ("capacity", "keys", "fpp", "hashes", "pages")
        exact = headers[0]["exact"]
        return cls(
            path=path,
            capacity=sum(header["capacity"] for header in headers),
            fpp=headers[0]["fpp"],
            exact=exact,
            keys=sum(keys),
            current_fpp=current,
            expected_loss=0.0 if exact else sum(map(sizing.expected_loss, counts)),
            exact_keys=sum(record["exact"] for record in records),
            disk_bytes=sum(store.disk_bytes() for store in stores),
            layers=[
                {name: getattr(one, name) for name in shown}
                for one in chain.from_iterable(states)
            ],
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return asdict(self)


def current_fpp(contents: Contents) -> float:
    """Return the rate calculated from the present number of keys."""
    return min(1.0, sum(shape.rate(keys) for shape, keys in contents.counts))


def expected_loss(contents: Contents) -> float:
    """Return how many new keys were called seen so far, by expectation."""
    if contents.parameters.exact:
        return 0.0
    return sizing.expected_loss(contents.counts)


def estimated_keys(contents: Contents) -> float:
    """Return the number of keys estimated from the bits that are set."""
    return _keys_for(contents, [layer.fill() for layer in contents.layers])


def _keys_for(contents: Contents, fills: list[float]) -> float:
    return sum(
        layer.geometry.keys_for_fill(fill)
        for layer, fill in zip(contents.layers, fills, strict=True)
    )


def memory_bytes(contents: Contents) -> int:
    """Return how many bytes the pages loaded so far take."""
    return sum(layer.memory_bytes() for layer in contents.layers)


def figures_of(contents: Contents) -> dict[str, Any]:
    """Return those of the figures of a filter for which none of its pages is read."""
    store = contents.store
    return {
        "keys": len(contents),
        "current_fpp": current_fpp(contents),
        "expected_loss": expected_loss(contents),
        "memory_bytes": memory_bytes(contents),
        "disk_bytes": 0 if store is None else store.disk_bytes(),
    }


def info_of(contents: Contents) -> FilterInfo:
    """Return the figures of a filter."""
    parameters, store = contents.parameters, contents.store
    fills = [layer.fill() for layer in contents.layers]
    return FilterInfo(
        path=None if store is None else str(store.path),
        capacity=parameters.capacity,
        fpp=parameters.fpp,
        exact=parameters.exact,
        estimated_keys=_keys_for(contents, fills),
        exact_keys=len(contents.exact),
        journal_keys=sum(layer.journal_keys for layer in contents.layers),
        layers=[
            LayerInfo(
                capacity=shape.capacity,
                keys=keys,
                fpp=shape.fpp,
                hashes=shape.hashes,
                pages=shape.pages,
                bits_per_key=shape.bits_per_key,
                fill=fill,
            )
            for fill, (shape, keys) in zip(fills, contents.counts, strict=True)
        ],
        **figures_of(contents),
    )
