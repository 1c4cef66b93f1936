"""Leases: requests of a shared crawl that the engine works on, until they are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.shared.names import Family

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.slot_queue import Entry
    from bloomdupe.redis.partition import Lease, Offer

__all__ = ["SharedLease", "SharedLeases", "Waiting"]


class Waiting:
    """What waits on this worker: handed out by Redis, or what cannot go there.

    A request that cannot be stored lives in the memory of the worker that has found it.
    It counts as a part of the request that has yielded it, its ``root``, which is not
    settled before.
    """

    __slots__ = ("lease", "name", "request", "root")

    def __init__(
        self,
        name: bytes,
        request: Request,
        lease: Lease | None,
        root: SharedLease | None = None,
    ) -> None:
        self.name = name
        self.lease = lease
        self.request = request
        self.root = root


class SharedLease:
    """One request handed to the engine: a :class:`bloomdupe.inside_scrapy.Work`."""

    __slots__ = (
        "_leases", "broken", "children", "entry", "instead", "kept", "lines",
        "open_parts", "request", "root", "waiting",
    )  # fmt: skip

    def __init__(
        self, leases: SharedLeases, request: Request, entry: Entry, waiting: Waiting
    ) -> None:
        self._leases = leases
        self.request = request
        self.entry = entry
        self.waiting = waiting
        self.root: SharedLease = waiting.root or self
        self.children = Family(waiting.name)
        self.kept: set[bytes] = set()
        """Of the root: fingerprints of what it has brought that cannot be stored."""
        self.open_parts = 1
        """Of the root: itself, and what is a part of it."""
        self.lines: list[bytes] = []
        """Of the root: what it has put out, with that of its parts."""
        self.instead: Offer | None = None
        """Of the root: its retry, which waits in its place when it is settled."""
        self.broken = False
        """Of the root: whether it or a part of it cannot be settled any more."""

    def answered(self, result: object) -> bool:  # noqa: ARG002 - whatever it is
        """Take note of the downloader's answer: the slot is free."""
        self._leases.release(self)
        return True

    def given(self, result: object) -> None:
        """Nothing depends on what callback or errback are given."""

    def takes_item(self) -> bool:
        """Every item counts, or none: they are settled together."""
        return True

    def cut_short(self) -> None:
        """Take note that the callback was ended by ``CloseSpider``."""
        self.root.broken = True

    def gave_up(self, error: BaseException) -> None:
        """There is no ledger of failures."""

    def raised(self, error: BaseException, response: object) -> None:
        """Likewise."""

    def broke_off(self, error: BaseException) -> None:
        """Nothing to note: a page that is not whole is done again."""

    def ended(self, *, whole: bool) -> None:
        """Take note that callback, pipelines and exports are through."""
        self._leases.end(self, whole=whole)


class SharedLeases:
    """Requests handed to the engine, by the identity of the object.

    ``settle`` is called for each that is done, ``give_up`` for each that others must do
    again.
    """

    def __init__(
        self,
        frontier: Frontier,
        settle: Callable[[SharedLease], None],
        give_up: Callable[[SharedLease], None],
    ) -> None:
        self._frontier = frontier
        self._settle = settle
        self._give_up = give_up
        self._leases: dict[int, SharedLease] = {}

    def __len__(self) -> int:
        """Count the requests that the engine works on."""
        return len(self._leases)

    def __contains__(self, request: Request) -> bool:
        """Whether the engine works on this very object."""
        return id(request) in self._leases

    def of(self, request: object) -> SharedLease | None:
        """Return the lease of a request; None for others than the scheduler's."""
        return self._leases.get(id(request))

    def add(self, request: Request, entry: Entry, waiting: Waiting) -> None:
        """Take note that the engine gets a request now; it must be a new object."""
        self._leases[id(request)] = SharedLease(self, request, entry, waiting)

    def release(self, lease: SharedLease) -> None:
        """Say that a request does not keep its slot busy any more."""
        self._frontier.release(lease.entry)

    def end(self, lease: SharedLease, *, whole: bool) -> None:
        """See :meth:`SharedLease.ended`."""
        if self._leases.pop(id(lease.request), None) is None:
            return
        self._frontier.settle(lease.entry)
        root = lease.root
        root.broken = root.broken or not whole
        root.open_parts -= 1
        if root.open_parts:
            return
        if root.broken:
            self._give_up(root)
        else:
            self._settle(root)
