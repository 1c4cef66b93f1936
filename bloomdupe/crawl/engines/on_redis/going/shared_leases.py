# mypy: ignore-errors
# ruff: noqa: ANN204
"""Leases: the requests that are in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from bloomdupe.crawl.engines.on_redis.going.shared_lease import SharedLease as Lease
from bloomdupe.crawl.leases.leases import Leases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from bloomdupe.crawl.engines.on_redis.going.in_memory import Position
    from bloomdupe.frontier.slot_queue import Entry
    from bloomdupe.requests.visits import Visit


class _Expected(NamedTuple):
    """State of a pending request, in memory."""

    position: Position
    keys: Sequence[object] = ()
    own: object = None


class SharedLeases(Leases):
    """Requests handed to Scrapy, by the identity of the object.

    Not by a mark in ``meta``: that is copied into retries and redirects.
    """

    def __init__(self):
        super().__init__()
        self._known: dict[Entry, _Expected] = {}

    def add(self, request: Request, entry: Entry, visit: Visit | None = None) -> Lease:
        """Note that Scrapy gets the request now; it must be a new object."""
        known = self._known.pop(entry, None) if self._known else None
        if known is None:
            lease = Lease(self, request, entry, None, visit)
        else:
            name, root, of_page, outputs = known.position
            lease = Lease(self, request, entry, root, visit, name)
            lease.of_page, lease.outputs = of_page, outputs
            lease.root.keys += known.keys
            lease.own = known.own
        self.engine.begin(lease)
        self._leases[id(request)] = lease
        for follow in self.handed_out:
            follow(lease)
        return lease

    def begin_part(self, position: Position) -> None:
        """Count a new request in memory: the root above it is not settled before."""
        above = position.above
        if above is not None:
            above.parts += 1
            above.part_names.append(position.name)

    def expect(
        self,
        entry: Entry,
        position: Position,
        *,
        keys: Sequence[object] = (),
        own: object = None,
    ) -> None:
        """Record what is known of a pending request besides its payload.

        The ``keys`` are marked when its root is settled. ``own`` is the engine's state
        of it.
        """
        self._known[entry] = _Expected(position, keys, own)

    def own_of(self, entry: Entry) -> object:
        """Return the engine's state of a pending request."""
        return self._known[entry].own

    def forget(self, entry: Entry) -> object:
        """Forget a pending request; return the engine's state of it."""
        return self._known.pop(entry).own

    def end(self, lease: Lease, *, whole: bool) -> None:
        """See :meth:`Lease.ended`."""
        if self._leases.pop(id(lease.request), None) is None:
            return
        lease.handed = None
        for follow in self.ended:
            follow(lease)
        root = lease.root
        if not whole:
            root.broken = True
        if lease.cut:
            root.cut = True
        self.engine.ended(lease, whole=not (lease.cut or root.broken))
        self.end_part(root)

    def end_part(self, root: Lease, *, whole: bool = True) -> None:  # noqa: ARG002
        """End a request, or a part of it, and the pages of which it was the last."""
        last: Lease | None = root
        while last is not None:
            root, position = last, last.of_page
            root.parts -= 1
            # It is asked each time, because it notices changes.
            is_apart = position is None or position.is_apart
            if root.parts:
                return
            last = None
            if position is not None:
                last = position.page
                if root.broken or root.cut:  # it runs again when its page does
                    root.broken = last.broken = True
            if root.broken or root.cut:
                root.left = True
                self.engine.leave(root)
            elif is_apart:
                for follow in self.settling:
                    follow(root)
                self.engine.settle(root)
            elif last is not None:
                last.hold(root)
