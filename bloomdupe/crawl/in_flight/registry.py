"""The registry of requests in flight, and of those that wait for their end.

There are three kinds of requests that a page in flight yields:

* A *plain* request is checked and marked by the filter. It is durable at once: when the
  page runs again after a crash, the filter drops it.
* Any other request that can be stored is *volatile*. It is handed out as usual, but
  neither it nor its output is written before its page is acknowledged. If the page
  never is, because of a crash, the request has never existed: the page yields it again.
* A request that cannot be stored is a *part* of its page, which is not done before. If
  it is plain, and carries no value that it could share, it *stands alone*: it is
  acknowledged by itself, with its fingerprint, so a page that runs again drops it.

So nothing is recognised after a crash except by the filter.
"""

from __future__ import annotations

import dis
from functools import cache, partial
from time import monotonic
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from scrapy import Request

from bloomdupe.crawl.in_flight.request import InFlightRequest
from bloomdupe.printable import logger_of
from bloomdupe.requests.callbacks import is_constant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType

    from scrapy import Spider

    from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
    from bloomdupe.crawl.in_flight.request import Accepted
    from bloomdupe.frontier.slot_queue import Entry


logger = logger_of(__name__)

MOST_OF_PAGE = 10_000
"""Volatile requests of a page."""
MOST_OF_ALL = 50_000
"""Volatile requests of all pages."""
LONGEST = 600.0
"""Seconds that a callback may run with volatile requests.

Beyond these bounds the requests are saved though their page is not acknowledged.
"""

MOST_VALUES = 1_000
"""Values of a request that are looked at."""
_WRITES = frozenset({"STORE_DEREF", "DELETE_DEREF"})


EARLY = (
    "%(page)s has volatile requests for ten minutes, or there are very many of them: it"
    " yields requests with dont_filter, or retries, and does not end. They are saved"
    " now. If the process is killed before the page ends, they come twice. This is"
    " logged once. Let start() yield such requests, or schedule them for later"
    " (bloomdupe_not_before)"
)


class InFlightRegistry:
    """Requests handed to Scrapy, by the identity of the object.

    Not by a mark in ``meta``: that is copied into retries and redirects.
    """

    engine: CrawlEngine
    """Where the requests come from."""

    def __init__(self) -> None:
        self.volatile = 0
        """Number of volatile requests."""
        self.with_parts: set[InFlightRequest] = set()
        """Roots that wait for their parts, items of ``start()``, and parts that nothing
        yields again: they belong to no page, and not to ``start()``."""
        self._in_flight: dict[int, InFlightRequest] = {}
        self._since: dict[InFlightRequest, float] = {}
        """Roots with volatile requests, and the time when they had the first."""
        self._warned = False

    def __len__(self) -> int:
        """Count the requests that have been handed out and are not done."""
        return len(self._in_flight)

    def of(self, request: object) -> InFlightRequest | None:
        """Return the request in flight; None if it did not come from the scheduler."""
        return self._in_flight.get(id(request))

    def add(self, request: Request, entry: Entry) -> InFlightRequest:
        """Note that Scrapy gets the request now; it must be a new object."""
        in_flight, entry.attachment = entry.attachment, None
        if type(in_flight) is not InFlightRequest:
            in_flight = InFlightRequest(self, entry)
        in_flight.request = request
        self._in_flight[id(request)] = in_flight
        self.engine.session.slots.handed_out(in_flight)
        return in_flight

    def add_start_item(self, key: bytes) -> InFlightRequest:
        """Note an item of ``start()``; its ``key`` is marked as seen when it is done.

        That is when its pipelines and exports are through.
        """
        item = self.add(Request("data:,start()"), self.engine.frontier.hold())
        item.is_start_item = True
        self.with_parts.add(item)
        mark = partial(self.engine.mark_acked, [(key, True)], None, of_start=True)
        item.outcome.then.append(mark)
        return item

    # Requests that are not durable at once: each is the attachment of its entry

    def in_memory(self, entry: Entry) -> Request | None:
        """Return the request of an entry; None: it is in the payload."""
        kept: Any = entry.attachment
        if type(kept) is InFlightRequest:
            kept = getattr(kept, "request", None)
        # The same object may have been scheduled several times.
        return kept.copy() if self.of(kept) else kept  # type: ignore[no-any-return]

    def expect_part(self, entry: Entry, accepted: Accepted, *, alone: bool) -> None:
        """Note a pending request that cannot be stored, as a part of a page.

        It is the page of the work that has led to it. Its keys are marked when it
        counts: with its page, or ``alone``. One of no page is its own root: only
        ``start()`` yields it again.
        """
        work, sent, of_start = accepted.work, accepted.sent, accepted.of_start
        root = None if work is None else work.root
        in_flight = InFlightRequest(self, entry, None if alone else root)
        in_flight.request, entry.attachment = accepted.request, in_flight
        if root is not None:
            root.parts += 1
            self.with_parts.add(root)
            if alone:
                in_flight.page = root
        elif not of_start:
            self.with_parts.add(in_flight)
        mark = partial(self.engine.mark_acked, sent.keys, sent.home, of_start=of_start)
        in_flight.outcome.then.append(mark)

    def expect_volatile(self, entry: Entry, work: InFlightRequest) -> InFlightRequest:
        """Note a pending request that is volatile."""
        entry.attachment = in_flight = InFlightRequest(self, entry)
        root = in_flight.page = work.root
        self._since.setdefault(root, monotonic())
        root.children.append(in_flight)
        self.volatile += 1
        if len(root.children) >= MOST_OF_PAGE:
            self._save_early(root)
        elif self.volatile >= MOST_OF_ALL:
            self._save_early(next(iter(self._since)))
        return in_flight

    def expect_loose(self, entry: Entry) -> None:
        """Note a pending request that nothing yields again."""
        entry.attachment = InFlightRequest(self, entry, loose=True)

    def any_volatile(self, accepts: Callable[[Entry], bool]) -> bool:
        """Whether there is a volatile request that ``accepts`` accepts."""
        return any(
            accepts(child.entry) for one in self._since for child in one.children
        )

    def drops(self, entry: Entry) -> bool:
        """Whether a volatile request is dropped, because its page was left."""
        return entry.attachment.page.is_left  # type: ignore[attr-defined, no-any-return]

    # The end

    def end(self, in_flight: InFlightRequest) -> None:
        """End a request, or the part of a page that it is."""
        known = self._in_flight.pop(id(in_flight.request), None)
        if known is None or in_flight.is_dropped:
            return
        if in_flight.is_start_item and self.engine.session.closed:
            return  # the next run yields it again
        self.engine.session.slots.ended(in_flight)
        self.engine.ended(in_flight)
        self.end_part(in_flight.root)

    def end_part(self, root: InFlightRequest) -> None:
        """End a request, or a part of it, and the pages of which it was the last."""
        while True:
            root.parts -= 1
            if root.parts:
                return
            self.with_parts.discard(root)
            page = root.page
            is_volatile = root.is_volatile
            if root.broken or (is_volatile and page and page.is_left):
                self._leave(root)
            elif not is_volatile:
                self._ack(root)
            if page is None or is_volatile:
                return
            page.broken = page.broken or root.broken
            root = page  # which was not done before it

    def _ack(self, root: InFlightRequest) -> None:
        """Ack a request that is done, and volatile requests that wait for it."""
        done = [root]
        for one in done:
            one.page = None
            self.engine.ack(one)
            if one.children:
                done += self._save_children(one)

    def _save_children(self, root: InFlightRequest) -> list[InFlightRequest]:
        """Make the volatile requests of a root durable; return those that are done."""
        children, root.children = root.children, []
        self._since.pop(root, None)
        self.volatile -= len(children)
        done = []
        for child in children:
            child.page = None
            if child.is_acked:
                done.append(child)
                continue
            self.engine.save(child)
            if child.is_left:
                self.engine.leave(child)
        return done

    def _leave(self, root: InFlightRequest) -> None:
        """Leave a request, and drop the volatile requests that wait for it."""
        left = [root]
        for one in left:
            one.broken = True
            self.engine.leave(one)
            children, one.children = one.children, []
            self._since.pop(one, None)
            self.volatile -= len(children)
            left += [child for child in children if not child.parts]

    def leave_all(self) -> None:
        """Leave all requests: they are pending in the store, and are handed out again.

        Their callbacks run on, but nothing of that counts: they belong to pages that
        are left, and so do all roots that have to do with them.
        """
        handed_out = [*self._in_flight.values()]
        left = dict.fromkeys([*handed_out, *self._since])
        new = [*left]
        for in_flight in new:
            for one in (in_flight.root, in_flight.page, *in_flight.children):
                if one is not None and one not in left:
                    left[one] = None
                    new.append(one)
        for in_flight in left:
            in_flight.children, in_flight.page = [], None
            in_flight.broken, in_flight.parts = True, 0
            in_flight.entry.active = False
        self.with_parts.clear()
        self._since.clear()
        self.volatile = 0
        for in_flight in handed_out:
            self.engine.session.slots.ended(in_flight)

    # Bounds

    def save_old(self) -> None:
        """Save the volatile requests of pages with callbacks that take very long.

        A page that waits for its parts is no such page: they live in memory anyway.
        """
        bound = monotonic() - LONGEST
        old = [root for root, since in self._since.items() if since < bound]
        for root in old:
            if root in self._since and root.is_running:
                self._save_early(root)

    def _save_early(self, root: InFlightRequest) -> None:
        """Save the volatile requests of a root, and the root, though it is not done."""
        if not self._warned:
            self._warned = True
            logger.warning(EARLY, {"page": root.shown})
        above = [root]
        while above[-1].is_volatile and above[-1].page is not None:
            above.append(above[-1].page)
        for one in reversed(above):
            for child in self._save_children(one):
                self._ack(child)


def stands_alone(request: Request, spider: Spider) -> bool:
    """Whether callback, ``meta`` and ``cb_kwargs`` carry only values without change.

    These are constants, classes, the spider, its methods, and functions with such
    values.
    """
    if not type(request).__module__.startswith("scrapy."):
        return False
    left: list[Any] = [
        request.callback,
        request.errback,
        *request.cb_kwargs.values(),
        *request.meta.values(),
    ]
    known: set[int] = set()
    for value in left:
        if value is spider or id(value) in known or is_constant(value):
            continue
        if issubclass(type(value), type):  # super() needs the class of its method
            continue
        known.add(id(value))
        inner = _values_of(value)
        if inner is None:
            return False
        left += inner
        if len(left) > MOST_VALUES:
            return False
    return True


def _values_of(value: Any) -> Iterable[Any] | None:
    """Return the values that a function carries; None if it can change itself."""
    if type(value) is MethodType:
        return [value.__self__]
    if type(value) is partial and not vars(value):
        return [value.func, *value.args, *value.keywords.values()]
    if type(value) is not FunctionType or vars(value) or _writes(value.__code__):
        return None
    try:
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
    except ValueError:  # one has no value yet
        return None
    defaults = value.__defaults__ or (), (value.__kwdefaults__ or {}).values()
    return [*cells, *defaults[0], *defaults[1]]


@cache
def _writes(code: CodeType) -> bool:
    """Whether a function, or one in it, writes a variable that it does not own."""
    return any(
        step.opname in _WRITES and step.argval in code.co_freevars
        for step in dis.get_instructions(code)
    ) or any(_writes(inner) for inner in code.co_consts if type(inner) is type(code))
