"""Settling: how requests in progress end in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.leases.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bloomdupe.crawl.engines.engine_contract import Accepted
    from bloomdupe.crawl.leases.children import Children, CutShort
    from bloomdupe.crawl.leases.lease import Key, Lease
    from bloomdupe.crawl.leases.outcomes import Outcomes
    from bloomdupe.crawl.state.failures import Failures
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.slot_queue import Entry


class Settling:
    """Base class: ends requests in the frontier, with their output and their state."""

    frontier: Frontier
    outcomes: Outcomes
    children: Children
    cut_short: CutShort
    failures: Failures | None

    def _push(self, offer: Accepted, *, instead: bool = False) -> None:
        """Make a request pending, ``instead`` in the place of its parent."""
        raise NotImplementedError

    def _mark_settled(self, keys: Sequence[Key]) -> None:
        """Mark requests that lived in memory, and are settled now, as seen."""
        raise NotImplementedError

    def begin(self, lease: Lease) -> None:
        """See :meth:`Engine.begin`."""
        if self.cut_short.answers:
            lease.answers_before = self.cut_short.answers_of(lease)

    def owes(self, lease: Lease) -> bool:
        """See :meth:`Engine.owes`.

        The output is children with ``dont_filter``, also of requests in memory that it
        may yield, or items of a callback that was cut short.
        """
        return (lease.root is lease and not lease.passed_on) and (
            self.children.owed or bool(lease.items_left)
        )

    def release(self, entry: Entry) -> None:
        """See :meth:`Engine.release`."""
        self.frontier.release(entry)

    def let_go(self, lease: Lease) -> None:
        """See :meth:`Engine.let_go`."""
        self._push(lease.instead)
        lease.instead = None

    def ended(self, lease: Lease, *, whole: bool) -> None:
        """See :meth:`Engine.ended`."""
        if not whole:
            return
        root = lease.root
        is_done = root.open_parts == 1 and not root.broken
        if is_done and root.instead is not None:
            # Before a failure is recorded: the request in its place has its name.
            self._replace(root)
        failures = self.failures
        if failures is not None and (lease.failed is not None or failures.urls):
            failures.ended(lease)
        if root is not lease or root.of_page is not None:
            self.frontier.settle(lease.entry)

    def _replace(self, root: Lease) -> None:
        """Make the request pending that takes the place of a root."""
        self._push(root.instead, instead=True)
        root.instead = None

    def settle(self, root: Lease) -> None:
        """See :meth:`Engine.settle`."""
        if root.instead is not None:  # a request in memory below it has ended last
            self._replace(root)
        place = root.of_page
        if place is None:
            self.frontier.settle(root.entry)
        elif place.recorded and place.page.is_named:
            self.children.add(place.page, root.name)
        if self.children.families or self.cut_short.answers:
            self._forget_output(root)
        for part in (root, *root.held):
            if part.keys:
                self._mark_settled(part.keys)
            self.outcomes.settle(part.own_outcome)

    def _forget_output(self, root: Lease) -> None:
        """Forget the output by which a request would be recognised: it is done."""
        self.children.forget(root.name, passed_on=root.passed_on)
        self.cut_short.forget(root.name, root if root.passed_on else None)
        for name in filter(None, {*root.parts} - {root.name}):
            self.children.forget(name)
            self.cut_short.forget(name)

    def leave(self, root: Lease) -> None:
        """See :meth:`Engine.leave`."""
        for part in root.held:
            self.outcomes.forget(part.outcome)
        outcome, root.own_outcome = root.own_outcome, Outcome()
        answers = root.answers_after
        if answers is None:
            self.outcomes.forget(outcome)
            return
        if root.is_named:
            self.cut_short.note(root, answers)
        self.outcomes.settle(outcome)
