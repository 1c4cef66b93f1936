"""Leases: the requests that are in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.leases.lease import Lease
from bloomdupe.crawl.leases.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from bloomdupe.crawl.leases.children import Children
    from bloomdupe.crawl.leases.cut_short import CutShort
    from bloomdupe.crawl.leases.lease import Key, Watcher
    from bloomdupe.crawl.leases.outcomes import Outcomes
    from bloomdupe.crawl.requests.visits import Visit
    from bloomdupe.crawl.state.failures import Failures
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.slot_queue import Entry

__all__ = ["Leases"]


class Leases:
    """Requests handed to the engine, by the identity of the object.

    Not by a mark in ``meta``: that is copied into retries and redirects.
    """

    def __init__(
        self,
        frontier: Frontier,
        outcomes: Outcomes,
        children: Children,
        cut_short: CutShort,
        failures: Failures | None,
        mark: Callable[[list[Key]], None],
    ) -> None:
        self._frontier = frontier
        self._outcomes = outcomes
        self._children = children
        self._cut_short = cut_short
        self._failures = failures
        self._mark = mark
        self.watchers: list[Watcher] = []
        self.leaves_out: Callable[[Lease], bool] = lambda _: False
        """Whether the next item of a page that comes again is left out."""
        self.leaves: Callable[[str, object], None] = lambda _url, _why: None
        """Told of each request that this run cannot do, and why."""
        self.after_a_kill = False
        """Whether the last run was killed: its requests in progress run again."""
        self._leases: dict[int, Lease] = {}
        # Of pending entries that cannot be stored: roots, marks, and names.
        self._roots: dict[Entry, tuple[Lease | None, list[Key], bytes | None]] = {}

    def __contains__(self, request: Request) -> bool:
        """Whether this very object has been handed out and is not done."""
        return id(request) in self._leases

    def __len__(self) -> int:
        """Count the requests that have been handed out and are not done."""
        return len(self._leases)

    def of(self, request: object) -> Lease | None:
        """Return the lease of a request; None if it did not come from the scheduler."""
        return self._leases.get(id(request))

    def add(self, request: Request, entry: Entry, visit: Visit | None = None) -> Lease:
        """Note that the engine gets the request now; it must be a new object."""
        root, keys, name = self._roots.pop(entry, (None, [], None))
        lease = Lease(self, request, entry, root, visit, name)
        lease.repeated = self.after_a_kill
        lease.root.keys += keys
        lease.answers_before = self._cut_short.answers_of(lease)
        self._leases[id(request)] = lease
        for watcher in self.watchers:
            watcher.handed_out(lease)
        return lease

    def add_part(
        self, entry: Entry, parent: Lease | None, keys: list[Key], name: bytes | None
    ) -> None:
        """Record an entry that cannot be stored; ``parent`` is in progress.

        The ``keys`` are marked when it is settled. ``name`` is None if it has none
        after a crash.
        """
        root = None
        if parent is not None and parent.root.open_parts:
            root = parent.root
            root.open_parts += 1
            root.parts.append(name)
        self._roots[entry] = (root, keys, name)

    def owes(self, lease: Lease) -> bool:
        """Whether an earlier run stored output that this run has not yielded again yet.

        The output is children with ``dont_filter``, or items of a callback that was cut
        short.
        """
        return (lease.root is lease and not lease.passed_on) and (
            self._children.owes(lease) or bool(lease.items_left)
        )

    def pass_on(self, lease: Lease) -> bytes:
        """Return the name of a request that ends now, for the one in its place.

        A page was in progress when the process was killed. The next run asks for it
        again, and gets a redirect, or has to try later. That other request then yields
        the output that the page had yielded by the time of the kill. Only one request
        takes the name.
        """
        lease.passed_on = True
        return lease.name

    def release(self, lease: Lease) -> None:
        """Free the slot of a request that no longer keeps it busy."""
        self._frontier.release(lease.entry)

    def set_aside(self, entry: Entry) -> None:
        """Keep an entry that cannot be restored; it is never settled."""
        self._frontier.release(entry)

    def end(self, lease: Lease, *, whole: bool) -> None:
        """See :meth:`Lease.ended`."""
        if self._leases.pop(id(lease.request), None) is None:
            return
        lease.handed = None
        self._frontier.release(lease.entry)
        for watcher in self.watchers:
            watcher.ended(lease)
        root = lease.root
        whole = whole and not lease.owed
        if lease.cut or not whole:
            # It never will be whole in this run.
            if root is lease:
                self._give_up(lease, count=whole)
            return
        if root.open_parts == 1 and root.instead is not None:
            root.instead(instead=True)
            root.instead = None
        failures = self._failures
        if failures is not None and (lease.failed is not None or failures.urls):
            failures.ended(lease)
        if root is not lease:
            self._frontier.settle(lease.entry)
        root.open_parts -= 1
        if not root.open_parts:
            self._settle(root)

    def _settle(self, root: Lease) -> None:
        self._frontier.settle(root.entry)
        self._children.forget(root.name, passed_on=root.passed_on)
        self._cut_short.forget(root.name, root if root.passed_on else None)
        for name in filter(None, {*root.parts} - {root.name}):
            self._children.forget(name)
            self._cut_short.forget(name)
        self._mark(root.keys)
        self._outcomes.settle(root.outcome)
        for watcher in self.watchers:
            watcher.settled(root)

    def _give_up(self, lease: Lease, *, count: bool) -> None:
        """Leave a request to the next run; ``count`` the items that it yielded so far.

        The items do not count if other requests are part of it: the next run repeats
        them all.
        """
        outcome, lease.own_outcome = lease.own_outcome, Outcome()
        if count and not lease.parts:
            if lease.is_named:
                self._cut_short.note(lease)
            self._outcomes.settle(outcome)
        else:
            self._outcomes.forget(outcome)
