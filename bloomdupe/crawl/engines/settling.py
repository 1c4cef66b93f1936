"""Settling: how requests in progress end in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.starting import StartItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.outcomes import Key, Outcomes
    from bloomdupe.crawl.state.failures import Failures
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.slot_queue import Entry


class Settling:
    """Base class: ends requests in the frontier, with their output and their state."""

    frontier: Frontier
    outcomes: Outcomes
    failures: Failures | None

    def _mark_settled(self, keys: Sequence[Key]) -> None:
        """Mark requests that lived in memory, and are settled now, as seen."""
        raise NotImplementedError

    def _hurry(self) -> None:
        """Write a checkpoint as soon as the running code returns control."""
        raise NotImplementedError

    def begin(self, lease: Lease) -> None:
        """Prepare a request that is handed out."""
        raise NotImplementedError

    def release(self, entry: Entry) -> None:
        """Free the slot of a request that does not keep it busy any more."""
        self.frontier.release(entry)

    def ended(self, lease: Lease, *, whole: bool) -> None:
        """Handle the end of a request, which may be a part of another request."""
        failures, outcome = self.failures, lease.outcome
        if whole and failures is not None and (lease.failed or failures.any):
            outcome.judged = [*outcome.judged, lease]
        if lease is not lease.root:
            self.frontier.settle(lease.entry)

    def settle(self, root: Lease) -> None:
        """End a request that is done, with all its parts."""
        if type(root) is not StartItem:
            self.frontier.settle(root.entry)
        outcome = root.outcome
        if self.failures is not None:
            for lease in outcome.judged:
                self.failures.ended(lease)
        outcome.judged = ()
        if outcome.keys:
            self._mark_settled(outcome.keys)
        self.outcomes.settle(outcome)

    def save(self, root: Lease) -> None:
        """Make a volatile request durable with the next checkpoint."""
        self.frontier.save(root.entry)
        if self.frontier.due:
            self._hurry()

    def leave(self, root: Lease) -> None:
        """Keep a request that has ended, but is not done: it is handed out again.

        A volatile request of a page that is left is dropped: the page yields it again.
        """
        self.outcomes.forget(root.outcome)
        page = root.page
        if page is None:
            if not root.is_start_item:
                self.frontier.leave(root.entry)
        elif page.is_left or not root.is_volatile:
            self.frontier.settle(root.entry)  # the page yields it again
