"""Shared copy: a crawl that workers share, copied into a store as of a job."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from bloomdupe.crawl.engines.on_redis.messages import REQUESTS, message_of
from bloomdupe.crawl.engines.on_redis.shared_failures import as_in_a_store
from bloomdupe.crawl.state.blocked import BLOCKED
from bloomdupe.errors import StoreError
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.jobs.on_redis.partition_layer import PartitionLayer
from bloomdupe.redis.shared_frontier import SharedFrontier
from bloomdupe.redis.shared_import import WITHOUT_MARKS
from bloomdupe.store.format import FAILURES
from bloomdupe.store.participant import Part

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from bloomdupe.filter.layer import Layer
    from bloomdupe.jobs.job_contract import Watched
    from bloomdupe.store.store import Store

LEASE_SECONDS = 60.0
"""Seconds after which workers may go on if this process is killed."""


@contextmanager
def copied(
    url: str,
    place: Path,
    watched: Watched,
    *,
    marks: bool,
) -> Iterator[Store]:
    """Copy a shared crawl into a store at ``place``; yield the store.

    No worker may run meanwhile. Without ``marks``, seen URLs are left out. Memory: the
    pages of all filters, about 4 bytes a URL. ``watched`` shows the progress by kind
    and total.

    Raises :class:`~bloomdupe.errors.StoreError` while workers are there, and for data
    that a store cannot hold.
    """
    with SharedFrontier.open(url, lease_seconds=LEASE_SECONDS) as frontier:
        frontier.imports.check_ended()
        frontier.hold()
        before = frontier.counts()
        seen = BloomFilter.open(
            place, **vars(frontier.parameters), identity=_identity(frontier)
        )
        try:
            queue = Frontier(seen)
            total = sum(counts.pending for counts in before)
            copying = _requests(frontier, queue, total)
            for _ in watched(copying, total, "requests"):
                if queue.due:
                    queue.checkpoint()
                    frontier.keep_holding()
            seen.notes["run"] = "shared"
            seen.notes["exact"] = True
            seen.notes["generation"] = frontier.round
            seen.notes[BLOCKED] = frontier.rules
            queue.checkpoint(_failures(frontier, queue))
        finally:
            seen.close()
        if marks:
            _copy_marks(frontier, place)
        if _changing(frontier.counts()) != _changing(before):
            raise StoreError(f"{frontier.shown} has changed meanwhile; export it again")
        frontier.keep_holding()
    with BloomFilter.open(place, readonly=True) as seen:
        store = seen.share_store()
        assert store is not None  # noqa: S101 - it was opened from there
        yield store


def _identity(frontier: SharedFrontier) -> dict[str, Any]:
    """Return the identity of a job of a single process."""
    given = frontier.identity
    if not {"spider", "fingerprinter"} <= given.keys():
        raise StoreError(f"{frontier.shown} is no crawl of Scrapy")
    return {
        "spider": given["spider"],
        "fingerprinter": given["fingerprinter"],
        "exact_urls": given["exact_urls"],
    }


def _changing(counts: list[Any]) -> list[tuple[int, int]]:
    return [(one.pushed, one.done) for one in counts]


def _requests(frontier: SharedFrontier, queue: Frontier, total: int) -> Iterator[None]:
    """Put the pending requests into a store; the order of each slot stays."""
    place = 0
    for number in range(frontier.partitions):
        for one in frontier.pending_of(number, sorted(frontier.slots(number))):
            message = message_of(one.payload)
            if message.kind not in REQUESTS:
                raise StoreError(
                    f"{frontier.shown}: items that start() has yielded are not put out"
                    " yet, or failures of requests that cannot be stored are not"
                    " recorded yet, and an export cannot hold them: let a worker run"
                    " for a moment"
                )
            queue.push(
                one.slot,
                one.priority,
                message.body,
                start=one.start,
                sequence=2 * total - place if one.newest_first else place,
            )
            place += 1
            yield
        for later in frontier.later(number):
            queue.push(
                later.slot,
                later.priority,
                message_of(later.payload).body,
                start=later.start,
                not_before=later.not_before,
            )
            yield


def _failures(frontier: SharedFrontier, queue: Frontier) -> Part:
    """Return the failed requests, for a store; it is made ready for them."""
    found = map(as_in_a_store, frontier.failures())
    puts = {digest: failure.packed() for digest, failure in found}
    assert queue.store is not None  # noqa: S101 - it was opened with one
    if puts:
        queue.store.make_room_for(FAILURES)
    return Part(write=lambda batch: batch.put_failures(puts))


def _copy_marks(frontier: SharedFrontier, place: Path) -> None:
    """Copy the filters of an import and of the partitions."""
    elsewhere = frontier.imports.seen
    if elsewhere is not None and elsewhere.parameters != frontier.parameters:
        raise StoreError(
            f"{frontier.shown}: the filter that was imported into it has another"
            " capacity, probability or secret key than the crawl, so no store can hold"
            f" both; {WITHOUT_MARKS}"
        )
    with BloomFilter.open(place) as seen:
        both = seen
        if elsewhere is not None:
            both |= elsewhere
        both.take_over(_layers(frontier), _exact_ids(frontier))


def _exact_ids(frontier: SharedFrontier) -> Iterator[bytes]:
    for number in range(frontier.partitions):
        frontier.keep_holding()
        yield from frontier.seen_in(number).exact_ids


def _layers(frontier: SharedFrontier) -> Iterator[tuple[str, Layer, int]]:
    for number in range(frontier.partitions):
        frontier.keep_holding()
        for _, layer, keys in frontier.seen_in(number).named_layers:
            if keys:
                name = PartitionLayer(
                    frontier.mark,
                    frontier.partitions,
                    frontier.rule.digest,
                    number,
                    layer.number,
                ).name
                yield name, layer, keys
