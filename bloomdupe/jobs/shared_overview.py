"""SharedOverview: the state of a crawl that workers share on Redis."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from bloomdupe.errors import StoreError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.sizing import expected_loss
from bloomdupe.jobs.overview import LARGEST
from bloomdupe.redis.address import Address
from bloomdupe.redis.frontier_reader import FrontierReader, kind_at

if TYPE_CHECKING:
    from bloomdupe.redis.frontier_reader import PartitionState

__all__ = [
    "FINISHED",
    "NOT_BEGUN",
    "RUNNING",
    "STOPPED",
    "FilterFigures",
    "SharedOverview",
    "WorkerShare",
    "filter_or_crawl",
    "open_crawl",
    "shared_overview",
]

NOT_BEGUN, RUNNING, STOPPED, FINISHED = "not begun", "running", "stopped", "finished"


class WorkerShare(NamedTuple):
    """A worker that is alive, or that still has a partition."""

    name: str
    partitions: int
    """Partitions that it owns."""
    leased: int
    """Requests in progress there."""


class FilterFigures(NamedTuple):
    """Figures calculated from the filters of all partitions."""

    current_fpp: float
    """Rate for the next request, if requests spread over partitions as before."""
    expected_loss: float
    """New requests called seen so far."""
    grown_partitions: int
    """Partitions with more than one layer."""


@dataclass(frozen=True)
class SharedOverview:
    """A crawl on Redis, read partition by partition."""

    url: str
    """URL without the password."""
    identity: dict[str, Any]
    """Identity of the crawl: spider, fingerprinter, feeds."""
    capacity: int
    """Given: expected requests (n)."""
    fpp: float
    """Given: false-positive probability (p)."""
    state: str
    """``not begun``, ``running``, ``stopped`` (no worker is alive) or ``finished``."""
    partition_by: str
    """The partition key of a request: its ``slot`` or its ``url``."""
    partitions: list[PartitionState]
    slots: dict[str, int]
    """Slots with pending requests, and their numbers of requests."""
    alive: list[str]
    """Names of the workers that are alive."""
    memory: int
    """Bytes of all data in this Redis."""
    memory_limit: int
    """Limit of these bytes; 0: there is no limit."""

    @property
    def pending(self) -> int:
        """Pending requests."""
        return sum(one.pending for one in self.partitions)

    @property
    def leased(self) -> int:
        """Requests in progress."""
        return sum(one.leased for one in self.partitions)

    @property
    def done(self) -> int:
        """Requests that are done."""
        return sum(one.done for one in self.partitions)

    @property
    def taken_in(self) -> int:
        """Requests ever added."""
        return sum(one.pushed for one in self.partitions)

    @property
    def keys(self) -> int:
        """Requests that were new when offered, as the filters have counted them."""
        return sum(one.keys for one in self.partitions)

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

    def largest(self, count: int = LARGEST) -> list[tuple[str, int]]:
        """Return the slots with the most pending requests."""
        return heapq.nsmallest(
            count, self.slots.items(), key=lambda slot: (-slot[1], slot[0])
        )

    def filter(self) -> FilterFigures:
        """Calculate the figures of the filters; takes 2 ms for each partition."""
        rates = [
            min(1.0, sum(shape.rate(count) for shape, count in one.layers))
            for one in self.partitions
        ]
        weighted = sum(
            rate * one.keys for rate, one in zip(rates, self.partitions, strict=True)
        )
        return FilterFigures(
            weighted / self.keys if self.keys else 0.0,
            sum(expected_loss(one.layers) for one in self.partitions),
            sum(len(one.layers) > 1 for one in self.partitions),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON; names as for a job in a directory."""
        return {
            "path": self.url,
            "identity": self.identity,
            "capacity": self.capacity,
            "fpp": self.fpp,
            "partition_by": self.partition_by,
            "keys": self.keys,
            **self.filter()._asdict(),
            "job": self.job(),
        }

    def job(self) -> dict[str, Any]:
        """Return the state of the job without its filters, as plain types."""
        return {
            "state": self.state,
            "partitions": len(self.partitions),
            "pending": self.pending,
            "leased": self.leased,
            "done": self.done,
            "set_aside": self.aside,
            "set_aside_reasons": self.reasons(),
            "taken_in": self.taken_in,
            "slots": len(self.slots),
            "largest": dict(self.largest()),
            "workers": [worker._asdict() for worker in self.workers],
            "unowned_partitions": self.unowned,
            "output_entries": self.entries,
            "memory_bytes": self.memory,
            "memory_limit": self.memory_limit or None,
        }


def filter_or_crawl(url: str) -> BloomFilter | FrontierReader:
    """Open the crawl that a URL names, to read it only."""
    kind = kind_at(url)
    if kind == "crawl":
        return FrontierReader.open(url)
    if kind == "nothing":
        raise StoreError(
            f"{Address.of(url).shown}: there is neither a crawl nor a filter of this"
            " name"
        )
    return BloomFilter.open(url, readonly=True)


def open_crawl(url: str) -> FrontierReader:
    """Open the crawl that a URL names, for :func:`shared_overview`."""
    return FrontierReader.open(url)


def shared_overview(reader: FrontierReader) -> SharedOverview:
    """Return the state of a crawl; takes a second for a million slots, and 200 MB.

    The crawl is finished if no request is pending or in progress in any partition, and
    a second reading of all partitions finds the same: then it held for all at once.
    """
    reader.check_still_there()
    alive = reader.workers()
    states = reader.states()
    memory, limit = reader.memory_used()
    if not any(one.pushed for one in states):
        state = NOT_BEGUN
    elif not any(one.slots or one.leased for one in states) and (
        _of(states) == _of(reader.states())
    ):
        state = FINISHED
    else:
        state = RUNNING if alive else STOPPED
    return SharedOverview(
        url=reader.shown,
        identity=reader.identity,
        capacity=reader.parameters.capacity,
        fpp=reader.parameters.fpp,
        state=state,
        partition_by=reader.partition_by,
        partitions=states,
        slots=_slots(reader, states),
        alive=alive,
        memory=memory,
        memory_limit=limit,
    )


def _slots(reader: FrontierReader, states: list[PartitionState]) -> dict[str, int]:
    slots: dict[str, int] = {}
    for one in states:
        if one.slots:
            for name, count in reader.slots(one.number).items():
                slots[name] = slots.get(name, 0) + count
    return slots


def _of(states: list[PartitionState]) -> list[tuple[int, int, int]]:
    return [(one.pushed, one.slots, one.leased) for one in states]
