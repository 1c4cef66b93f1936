"""HeldFailures: the failed requests in the partitions of a worker."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bloomdupe.crawl.state.failures import Failures, log_failures
from bloomdupe.frontier.sent_request import partition_of
from bloomdupe.store.participant import Part, Participant

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.state.rules import RulesInForce
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.held_frontier import HeldFrontier


class HeldFailures(Participant):
    """Has the interface of :class:`~bloomdupe.crawl.state.failures.Failures`.

    Each partition keeps the failed requests of its slots; those of a slot whose
    partition is not here are kept with the home. ``make`` makes the failures of a
    frontier, whose store they are in. ``job`` is named in messages.
    """

    def __init__(
        self,
        frontier: HeldFrontier,
        make: Callable[[Frontier], Failures],
        job: str,
    ) -> None:
        self._frontier = frontier
        self._make = make
        self._job = job
        self._left = 0
        self._known: dict[int, tuple[Frontier, Failures]] = {}

    @property
    def _here(self) -> dict[int, Failures]:
        """The failures of each partition that is here, by number."""
        frontiers, before = self._frontier.frontiers, self._known
        self._known = {}
        for number, frontier in frontiers.items():
            known = before.get(number)
            if known is None or known[0] is not frontier:
                failures = self._make(frontier)
                failures.restore(0)
                known = frontier, failures
            self._known[number] = known
        return {number: failures for number, (_, failures) in self._known.items()}

    def _of(self, slot: str) -> Failures:
        here, number = self._here, partition_of(slot)
        return here[number if number in here else self._frontier.store.number]

    def __len__(self) -> int:
        """Return the number of failed requests."""
        return sum(map(len, self._here.values()))

    @property
    def by_reason(self) -> dict[str, int]:
        """Number of failed requests by reason, the largest first."""
        found: Counter[str] = Counter()
        for failures in self._here.values():
            found.update(failures.by_reason)
        return dict(found.most_common())

    @property
    def urls(self) -> bool:
        """Whether any request has failed."""
        return any(failures.urls for failures in self._here.values())

    def restore(self, left: int) -> None:
        """Restore the number of those that were forgotten because of the limit."""
        self._left = left

    def begin(
        self,
        reasons: tuple[str, ...] | None,
        push: Callable[[str, int, bytes], object],
        rules: RulesInForce,
    ) -> int:
        """See :meth:`Failures.begin`."""
        return sum(one.begin(reasons, push, rules) for one in self._here.values())

    def end(self) -> None:
        """Log the failed requests by reason, if there are any."""
        log_failures(self.by_reason, self._job)

    def ended(self, lease: Lease) -> None:
        """See :meth:`Failures.ended`."""
        self._of(lease.entry.queue.name).ended(lease)

    def kept_out(self, slot: str, request: Request, payload: bytes | None) -> None:
        """See :meth:`Failures.kept_out`."""
        self._of(slot).kept_out(slot, request, payload)

    @property
    def changed(self) -> bool:
        """Whether there is anything for the next checkpoint."""
        return any(failures.changed for failures in self._here.values())

    def prepare(self) -> Part:
        """Return the parts of all partitions."""
        here = self._here.items()
        left = self._left + sum(one.left for _, one in here)
        return Part(
            entries={"failures_left": left} if left else {},
            partitions={number: one.prepare() for number, one in here},
        )
