"""FilterInfo: what can be told about a filter, given, calculated and measured."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["FilterInfo", "LayerInfo", "wilson_interval"]

Z95 = 1.959964


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
    growth: str
    confirm: float
    keys: int
    """Counted: keys that were new when added."""
    estimated_keys: float
    """Estimated from the fill."""
    current_fpp: float
    """Calculated: rate at the present number of keys."""
    expected_loss: float
    """Calculated: new keys called seen so far (those not confirmed)."""
    trials: int
    """Confirmed keys that were new, on which the rate is measured."""
    false_positives: int
    """Those of them that the bits alone would have called seen."""
    measured_fpp: float | None
    """``false_positives / trials``: mean rate over the filter's life so far."""
    measured_low: float | None
    """Lower end of the 95 % confidence interval (Wilson, 1927)."""
    measured_high: float | None
    """Upper end."""
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


def wilson_interval(hits: int, trials: int) -> tuple[float, float]:
    """95 % confidence interval of a proportion (E. B. Wilson, JASA 22, 1927)."""
    share = hits / trials
    square = Z95 * Z95
    middle = share + square / (2 * trials)
    half = Z95 * math.sqrt(
        share * (1 - share) / trials + square / (4 * trials * trials)
    )
    scale = 1 + square / trials
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
