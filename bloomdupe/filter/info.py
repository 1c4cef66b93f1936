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

    from typing_extensions import Self

    from bloomdupe.filter.contents import Contents
    from bloomdupe.filter.sizing import Geometry
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

    @classmethod
    def of(cls, shape: Geometry, keys: int, **more: float) -> Self:
        """Return the figures of a layer."""
        return cls(
            capacity=shape.capacity,
            keys=keys,
            fpp=shape.fpp,
            hashes=shape.hashes,
            pages=shape.pages,
            bits_per_key=shape.bits_per_key,
            **more,
        )


@dataclass(frozen=True)
class MeasuredLayer(LayerInfo):
    """A layer whose pages were looked at."""

    fill: float
    """Share of bits that are set, measured on at most 1,024 pages."""


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
    """Keys kept exactly."""
    disk_bytes: int
    """Size of the store's data file."""
    layers: Sequence[LayerInfo]

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class MeasuredFilter(FilterInfo):
    """A filter that is open, and whose pages were looked at."""

    layers: Sequence[MeasuredLayer]
    estimated_keys: float
    """Estimated from the fill."""
    journal_keys: int
    """Keys in the journal, not yet folded into stored pages."""
    memory_bytes: int
    """Pages in memory."""


def info_of_records(
    path: str, stores: Sequence[Store], records: Sequence[dict[str, Any]]
) -> FilterInfo:
    """Return the figures of one filter in a store, or of several that share the keys.

    No page and no journal is read. See :class:`bloomdupe.filter.contents.Contents` for
    the records.
    """
    headers = [store.header for store in stores]
    counts = []
    for record in records:
        states = [LayerState(*one) for one in record["layers"]]
        counts.append([(one.geometry, one.keys) for one in states])
    keys = [sum(number for _, number in some) for some in counts]
    rates = [rate_of(some) for some in counts]
    # The next key goes to any of them, as the keys before did.
    current = sum(map(mul, rates, keys)) / sum(keys) if any(keys[1:]) else rates[0]
    exact = headers[0]["exact"]
    return FilterInfo(
        path=path,
        capacity=sum(header["capacity"] for header in headers),
        fpp=headers[0]["fpp"],
        exact=exact,
        keys=sum(keys),
        current_fpp=current,
        expected_loss=0.0 if exact else sum(map(sizing.expected_loss, counts)),
        exact_keys=sum(record["exact"] for record in records),
        disk_bytes=sum(store.disk_bytes() for store in stores),
        layers=[LayerInfo.of(*one) for one in chain.from_iterable(counts)],
    )


def rate_of(counts: Sequence[tuple[Geometry, int]]) -> float:
    """Return the rate calculated from the present number of keys of each layer."""
    return min(1.0, sum(shape.rate(keys) for shape, keys in counts))


def expected_loss(contents: Contents) -> float:
    """Return how many new keys were called seen so far, by expectation."""
    if contents.parameters.exact:
        return 0.0
    return sizing.expected_loss(contents.counts)


def keys_for(contents: Contents, fills: Sequence[float]) -> float:
    """Return the number of keys estimated from the fill of each layer."""
    return sum(
        layer.geometry.keys_for_fill(fill)
        for layer, fill in zip(contents.layers, fills, strict=True)
    )


def info_of(contents: Contents) -> MeasuredFilter:
    """Return the figures of a filter."""
    parameters, store, counts = contents.parameters, contents.store, contents.counts
    fills = [layer.fill() for layer in contents.layers]
    return MeasuredFilter(
        path=None if store is None else str(store.path),
        capacity=parameters.capacity,
        fpp=parameters.fpp,
        exact=parameters.exact,
        keys=len(contents),
        current_fpp=rate_of(counts),
        expected_loss=expected_loss(contents),
        exact_keys=len(contents.exact),
        disk_bytes=contents.disk_bytes,
        layers=[
            MeasuredLayer.of(*one, fill=fill)
            for fill, one in zip(fills, counts, strict=True)
        ],
        estimated_keys=keys_for(contents, fills),
        journal_keys=sum(layer.journal_keys for layer in contents.layers),
        memory_bytes=contents.memory_bytes,
    )
