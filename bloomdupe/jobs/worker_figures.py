"""The figures that only a crawl on Redis has: workers, and filters by partition."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from bloomdupe.redis.frontier_reader import PartitionState

LARGEST = 10
"""Number of reasons to name."""


class WorkerShare(NamedTuple):
    """A worker that is alive, or that still has a partition."""

    name: str
    partitions: int
    """Partitions that it owns."""
    leased: int
    """Requests in progress there."""


@dataclass(frozen=True)
class WorkerFigures:
    """The figures that only a job on Redis has, partition by partition."""

    partitions: list[PartitionState]
    alive: list[str]
    """Names of the workers that are alive."""
    memory: int
    """Bytes of all data in this Redis."""
    memory_limit: int
    """Limit of these bytes; 0: there is no limit."""
    round: int

    @property
    def leased(self) -> int:
        """Requests in progress."""
        return sum(one.leased for one in self.partitions)

    @property
    def done(self) -> int:
        """Requests that are done, with a page or without."""
        return sum(one.done for one in self.partitions)

    @property
    def unowned(self) -> int:
        """Partitions without an owner."""
        return sum(not one.owner for one in self.partitions)

    @property
    def aside(self) -> int:
        """Requests that a worker could not restore."""
        return sum(one.aside for one in self.partitions)

    def reasons(self, count: int = LARGEST) -> list[str]:
        """Return some of these requests, each with the reason."""
        return [reason for one in self.partitions for reason in one.reasons][:count]

    @property
    def entries(self) -> int:
        """Output entries that were not collected and deleted."""
        return sum(one.entries for one in self.partitions)

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return {
            "done": self.done,
            "partitions": len(self.partitions),
            "leased": self.leased,
            "set_aside": self.aside,
            "set_aside_reasons": self.reasons(),
            "workers": [worker._asdict() for worker in self.workers],
            "unowned_partitions": self.unowned,
            "output_entries": self.entries,
            "memory_bytes": self.memory,
            "memory_limit": self.memory_limit or None,
            "round": self.round,
        }

    @property
    def workers(self) -> list[WorkerShare]:
        """Workers that are alive, or that still have a partition."""
        owners = {one.owner for one in self.partitions if one.owner}
        return [
            WorkerShare(
                name,
                sum(one.owner == name for one in self.partitions),
                sum(one.leased for one in self.partitions if one.owner == name),
            )
            for name in sorted({*self.alive, *owners})
        ]


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
