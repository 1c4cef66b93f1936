"""FilterInfo: the figures of a filter, given, counted and calculated."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain
from operator import mul
from typing import TYPE_CHECKING, Any

from bloomdupe.filter import sizing
from bloomdupe.filter.contents import counts_of
from bloomdupe.filter.parameters import Parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

    from bloomdupe.filter.contents import Counts
    from bloomdupe.store.store import Store


@dataclass(frozen=True)
class LayerInfo:
    """One layer of a filter."""

    capacity: int
    """Keys it was sized for."""
    fpp: float
    """Its share of the filter's false-positive probability."""
    hashes: int
    """Positions per key (k)."""
    pages: int
    """Pages of 8,168 bytes."""
    keys: int
    """Keys added to it."""
    bits_per_key: float
    """m/n at capacity."""


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
        rates = [rate_of(part) for part in parts]
        # The next key goes to any of them, as the keys before did.
        current = sum(map(mul, rates, keys)) / sum(keys) if any(keys[1:]) else rates[0]
        loss = 0.0 if parameters.exact else sum(map(sizing.expected_loss, parts))
        return cls(
            path=path,
            capacity=parameters.capacity * len(parts),
            fpp=parameters.fpp,
            exact=parameters.exact,
            keys=sum(keys),
            current_fpp=current,
            expected_loss=loss,
            exact_keys=exact_keys,
            disk_bytes=disk_bytes,
            layers=[
                LayerInfo(*shape, number, shape.bits_per_key)
                for shape, number in chain.from_iterable(parts)
            ],
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return asdict(self)


def rate_of(counts: Counts) -> float:
    """Return the rate calculated from the present number of keys of each layer."""
    return min(1.0, sum(shape.rate(keys) for shape, keys in counts))


def info_of_records(
    path: str, stores: Sequence[Store], records: Sequence[dict[str, Any]]
) -> FilterInfo:
    """Return the figures of one filter in a store, or of several that share the keys.

    No page and no journal is read. See :class:`bloomdupe.filter.contents.Contents` for
    the records.
    """
    return FilterInfo.of(
        path,
        Parameters.from_header(stores[0].header, path),
        [*map(counts_of, records)],
        exact_keys=sum(record["exact"] for record in records),
        disk_bytes=sum(store.disk_bytes() for store in stores),
    )
