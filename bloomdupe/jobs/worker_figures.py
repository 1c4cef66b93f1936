"""The figures that only a crawl on Redis has: workers, and filters by partition."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class WorkerFigures:
    """The figures that only a job on Redis has."""

    workers: int
    """Workers that are alive, or that still have a partition."""
    partitions: int
    unowned_partitions: int
    """Partitions without an owner."""
    output_entries: int
    """Output entries that were not collected and deleted."""
    memory_bytes: int
    """Bytes of all data in this Redis."""
    memory_limit: int | None
    """Limit of these bytes; None: there is no limit."""
    leased: int | None = None
    """Requests in progress; None: they are among the pending requests."""
    set_aside: int = 0
    """Requests that a worker could not restore."""
    set_aside_reasons: list[str] = field(default_factory=list)
    """Some of these requests, each with the reason."""
    round: int = 1


@dataclass(frozen=True)
class PartitionedFilter:
    """The filters of all partitions of a crawl on Redis, taken together."""

    path: str
    """URL without the password."""
    capacity: int
    """Given: expected requests (n)."""
    fpp: float
    """Given: false-positive probability (p)."""
    keys: int
    """Requests that were new when offered, as the filters have counted them."""
    current_fpp: float
    """Rate for the next request, if requests spread over partitions as before."""
    expected_loss: float
    """New requests called seen so far."""
    grown_partitions: int
    """Partitions with more than one layer."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return asdict(self)
