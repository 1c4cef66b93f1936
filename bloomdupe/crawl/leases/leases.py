"""Leases: the requests that are in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.leases.lease import HeldPart, InMemory, Lease
from bloomdupe.crawl.leases.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from bloomdupe.crawl.leases.carried import CarriedValues
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
        values: CarriedValues,
    ) -> None:
        self._frontier = frontier
        self._outcomes = outcomes
        self._children = children
        self._cut_short = cut_short
        self._failures = failures
        self._mark = mark
        self._values = values
        self.watchers: list[Watcher] = []
        self.leaves_out: Callable[[Lease], bool] = lambda _: False
        """Whether the next item of a page that comes again is left out."""
        self.leaves: Callable[[str, object], None] = lambda _url, _why: None
        """Told of each request that this run cannot do, and why."""
        self.after_a_kill = False
        """Whether the last run was killed: its requests in progress run again."""
        self._leases: dict[int, Lease] = {}
        # Pending entries that cannot be stored, and their marks.
        self._in_memory: dict[Entry, tuple[InMemory, list[Key]]] = {}

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
        memory, keys = self._in_memory.pop(entry, (None, []))
        lease = Lease(self, request, entry, visit, memory)
        lease.repeated = self.after_a_kill
        lease.root.keys += keys
        lease.answers_before = self._cut_short.answers_of(lease)
        self._leases[id(request)] = lease
        for watcher in self.watchers:
            watcher.handed_out(lease)
        return lease

    def add_in_memory(self, entry: Entry, memory: InMemory, keys: list[Key]) -> None:
        """Record a pending entry that cannot be stored.

        The ``keys`` are marked when it counts.
        """
        if memory.root is not None:
            memory.root.open_parts += 1
        if memory.page is not None:
            memory.page.open_parts += 1
            memory.page.has_parts = True
        self._in_memory[entry] = memory, keys

    def owes(self, lease: Lease) -> bool:
        """Whether an earlier run stored output that this run has not yielded again yet.

        The output is children with ``dont_filter``, or items of a callback that was cut
        short.
        """
        return (lease.root is lease and not lease.passed_on) and (
            self._children.owes(lease.name) or bool(lease.items_left)
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
                self._give_up(lease, count=whole and root.page is None)
            return
        self._put_in_place(root)
        failures = self._failures
        if failures is not None and (lease.failed is not None or failures.urls):
            failures.ended(lease)
        if lease.entry.payload is None:
            self._frontier.settle(lease.entry)
        self._end_part(root)

    def _put_in_place(self, root: Lease) -> None:
        """Make the request pending that was held back for the end of this request."""
        if root.open_parts == 1 and root.instead is not None:
            root.instead(instead=True)
            root.instead = None

    def _end_part(self, root: Lease | None) -> None:
        """End a part of a request, and the requests of which it was the last part."""
        while root is not None:
            self._put_in_place(root)
            root.open_parts -= 1
            # A response may have changed even if other parts are open.
            unchanged = root.carried and self._values.are_unchanged(root.carried)
            if root.open_parts:
                return
            page = root.page
            if page is None or unchanged:
                self._settle(root)
            else:
                page.spoiled = page.spoiled or root.spoiled
                part = HeldPart(root.name, root.keys, root.outcome)
                page.held += [part, *root.held]
            root = page

    def _settle(self, root: Lease) -> None:
        """Let a request count that is done, and so are its parts."""
        page = root.page
        if root.entry.payload is not None:
            self._frontier.settle(root.entry)
        elif page is not None and root.recorded and page.is_named:
            self._children.add(page.name, root.name)
        self._children.forget(root.name, passed_on=root.passed_on)
        self._cut_short.forget(root.name, root if root.passed_on else None)
        self._mark(root.keys)
        self._outcomes.settle(root.outcome)
        for part in root.held:
            self._children.forget(part.name)
            self._cut_short.forget(part.name)
            self._mark(part.keys)
            self._outcomes.settle(part.outcome)
        for watcher in self.watchers:
            watcher.settled(root)

    def _give_up(self, lease: Lease, *, count: bool) -> None:
        """Leave a request to the next run; ``count`` the items that it yielded so far.

        The items do not count if other requests are part of it: the next run repeats
        them all.
        """
        outcome, lease.own_outcome = lease.own_outcome, Outcome()
        if count and not lease.has_parts:
            if lease.is_named:
                self._cut_short.note(lease)
            self._outcomes.settle(outcome)
        else:
            self._outcomes.forget(outcome)
