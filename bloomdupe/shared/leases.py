"""Leases: requests of a shared crawl that the engine works on, until they are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.crawl.requests.names import OutputNames
from bloomdupe.redis.partition import LeftRequest, SeenMark, Settled
from bloomdupe.shared.messages import REQUEST, again_with, message_of, payload_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.frontier.slot_queue import Entry
    from bloomdupe.redis.partition import Offer, RedisLease

__all__ = ["LocalRequest", "SharedLease", "SharedLeases"]


class LocalRequest:
    """A request of this worker: handed out by Redis, or not storable there.

    A request that cannot be stored lives in the memory of the worker that has found it.
    It counts as a part of the request that has yielded it, its ``root``, which is not
    settled before.
    """

    __slots__ = ("key", "lease", "name", "put_out", "request", "root")

    def __init__(
        self,
        name: bytes,
        request: Request,
        lease: RedisLease | None,
        root: SharedLease | None = None,
        key: bytes | None = None,
        put_out: frozenset[bytes] = frozenset(),
    ) -> None:
        self.name = name
        self.lease = lease
        self.request = request
        self.root = root
        self.key = key
        """Mark of a request that cannot be stored when it is done: its fingerprint.

        With ``dont_filter``, it is the name of a start request, and otherwise None.
        """
        self.put_out = put_out
        """Names of its lines of output from before it was left."""


class SharedLease:
    """One request handed to the engine: a :class:`bloomdupe.inside_scrapy.Work`."""

    __slots__ = (
        "_leases",
        "_line_names",
        "_put_out",
        "broken",
        "carries",
        "children",
        "entry",
        "instead",
        "is_child",
        "left",
        "lines",
        "local",
        "may_hold",
        "open_parts",
        "relies",
        "request",
        "root",
        "waiting",
    )  # fmt: skip

    def __init__(
        self, leases: SharedLeases, request: Request, entry: Entry, local: LocalRequest
    ) -> None:
        self._leases = leases
        self.request = request
        self.entry = entry
        self.local = local
        self.root: SharedLease = local.root or self
        self.children = OutputNames(local.name)
        self.carries: dict[bytes, SeenMark] = {}
        """Of the root: its parts that have a fingerprint."""
        self.relies: dict[tuple[int, str, bytes], RedisLease] = {}
        """Of the root: pages that carry the same links."""
        self.open_parts = 1
        """Of the root: number of its open parts, itself included."""
        self.lines: list[bytes] = []
        """Of the root: lines of output, with those of its parts."""
        self.instead: Offer | None = None
        """Of the root: its retry or redirect, or the request for its page once more,
        which takes its place when it is settled.
        """
        self.is_child = False
        """Whether that has the name of a child."""
        self.waiting = False
        """Whether the callback waits, as far as this is known."""
        self.may_hold = True
        """Of the root: whether its retry may still be held back for this."""
        self.broken = False
        """Of the root: whether it or a part of it cannot be settled any more."""
        self.left = False
        """Of the root: whether it was given up, and items that come now are late."""
        self._put_out = set(local.put_out)
        self._line_names: OutputNames | None = None

    def done(self, lease: RedisLease) -> Settled:
        """Return the settlement of the root."""
        lines = self._new(self.lines) if self._put_out else self.lines
        marks, relies = list(self.carries.values()), list(self.relies.values())
        return Settled(lease, lines, self._successor(), marks, relies)

    def _successor(self) -> Offer | None:
        """Return the request that takes the place of the root.

        It takes its name, too, so the outputs that the root had yielded before a crash
        are recognised. If the root has yielded other outputs this time as well, those
        of the successor may be further ones, and it keeps a name of its own: that of a
        child, if it ``is_child``.
        """
        instead = self.instead
        if instead is None:
            return None
        if self.lines or self.children.count > self.is_child:
            if not self.is_child:
                return instead
            self._leases.offer(instead)
            return None
        body = message_of(instead.payload).body
        payload = payload_of(REQUEST, self.local.name, body)
        return instead._replace(payload=again_with(payload, self._put_out))

    def leave(self, lease: RedisLease, lines: list[bytes]) -> LeftRequest:
        """Return the root as left, with the lines of output that count all the same."""
        self.left = True
        new = self._new(lines)
        return LeftRequest(lease, again_with(lease.payload, self._put_out), new)

    def _new(self, lines: list[bytes]) -> list[bytes]:
        """Return only the lines that are new, and remember their names."""
        names = self._line_names = self._line_names or OutputNames(self.local.name)
        new = {names.name_of(line): line for line in lines}
        new = {name: line for name, line in new.items() if name not in self._put_out}
        self._put_out.update(new)
        return list(new.values())

    def answered(self, result: object) -> bool:  # noqa: ARG002 - whatever it is
        """Release the slot: the downloader has answered."""
        self._leases.release(self)
        return True

    def given(self, result: object) -> None:
        """Do nothing: the argument of the callback or errback does not matter."""

    def takes_item(self) -> bool:
        """True: all items are settled together with their page."""
        return True

    @property
    def holds_back(self) -> bool:
        """Whether a request is held back until its root ends."""
        return self.root.instead is not None

    def waits(self) -> None:
        """Let the request go that is held back: the callback may wait for it."""
        self.waiting, root = True, self.root
        instead, root.instead = root.instead, None
        if instead is not None:
            self._leases.offer(instead)

    def cut_short(self) -> None:
        """Give the page up, because ``CloseSpider`` has ended its callback."""
        self.root.broken = True

    def gave_up(self, error: BaseException) -> None:
        """Do nothing: a shared crawl does not store failed requests."""

    def raised(self, error: BaseException, response: object) -> None:
        """Do nothing, as :meth:`gave_up`."""

    def broke_off(self, error: BaseException) -> None:
        """Do nothing: a page that is not complete is done again."""

    def ended(self, *, whole: bool) -> None:
        """End the request: callback, pipelines and exports are through."""
        self._leases.end(self, whole=whole)


class SharedLeases:
    """Requests handed to the engine, by the identity of the object.

    ``settle`` is called for each request that is done, ``give_up`` for each request
    that another worker must do again; ``offer`` lets a request go that was held back.
    """

    def __init__(
        self,
        frontier: Frontier,
        settle: Callable[[SharedLease], None],
        give_up: Callable[[SharedLease], None],
        offer: Callable[[Offer], None],
    ) -> None:
        self._frontier = frontier
        self._settle = settle
        self._give_up = give_up
        self.offer = offer
        self._leases: dict[int, SharedLease] = {}

    def __len__(self) -> int:
        """Count the requests that the engine works on."""
        return len(self._leases)

    def __contains__(self, request: Request) -> bool:
        """Whether the engine works on this very object."""
        return id(request) in self._leases

    def of(self, request: object) -> SharedLease | None:
        """Return the lease of a request; None if it is not the scheduler's."""
        return self._leases.get(id(request))

    def add(self, request: Request, entry: Entry, local: LocalRequest) -> None:
        """Add a request that the engine gets now; it must be a new object."""
        self._leases[id(request)] = SharedLease(self, request, entry, local)

    def release(self, lease: SharedLease) -> None:
        """Say that a request does not keep its slot busy any more."""
        self._frontier.release(lease.entry)

    def end(self, lease: SharedLease, *, whole: bool) -> None:
        """See :meth:`SharedLease.ended`."""
        if self._leases.pop(id(lease.request), None) is None:
            return
        self._frontier.settle(lease.entry)
        lease.root.broken = lease.root.broken or not whole
        self.end_part(lease.root)

    def end_part(self, root: SharedLease) -> None:
        """End a request, or a part of it."""
        root.open_parts -= 1
        if root.open_parts:
            return
        if root.broken:
            self._give_up(root)
        else:
            self._settle(root)
