"""FilterInfo: the figures of a filter, given, counted, calculated and estimated."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from bloomdupe.filter import sizing
from bloomdupe.filter.layer import LayerState

if TYPE_CHECKING:
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
    def of(cls, store: Store, record: dict[str, Any]) -> StoredFilter:
        """Return them; see :class:`bloomdupe.filter.contents.Contents`."""
        header = store.header
        states = [LayerState(*state) for state in record["layers"]]
        counts = [(state.geometry, state.keys) for state in states]
        shown = ("capacity", "keys", "fpp", "hashes", "pages")
        return cls(
            path=str(store.path),
            capacity=header["capacity"],
            fpp=header["fpp"],
            exact=header["exact"],
            keys=sum(state.keys for state in states),
            current_fpp=min(1.0, sum(shape.rate(keys) for shape, keys in counts)),
            expected_loss=0.0 if header["exact"] else sizing.expected_loss(counts),
            exact_keys=record["exact"],
            disk_bytes=store.disk_bytes(),
            layers=[{name: getattr(one, name) for name in shown} for one in states],
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
