"""Engine: the contract of the place where a crawl keeps its requests.

An engine promises:

1. A request that it has taken is handed out again and again, here or in another
   process, until it is settled.
2. Settling a request makes its children, its output and its end durable together, or
   none of them. Only children that the filter recognises are durable before.

No call waits for the network. An engine without an answer takes the request, and
decides later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from bloomdupe.crawl.leases.lease import LeaseEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy import Request

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.outcomes import Key, Line, Outcome
    from bloomdupe.crawl.progress.standing import Standing
    from bloomdupe.crawl.starting import Starting
    from bloomdupe.crawl.state.rules import RulesInForce
    from bloomdupe.frontier.slot_queue import Entry


class Accepted(NamedTuple):
    """A request that the crawl has accepted."""

    request: Request
    payload: bytes | None
    """None: it cannot be stored. Empty: it need not be stored."""
    slot: str
    parent: Lease | None
    """The request in progress that has yielded it."""
    page: Lease | None
    """The root of that request, or the item of ``start()`` that has led to it."""
    keys: Sequence[Key]
    """Marks to set, if there are any: first its fingerprint."""
    repeats: bool = False
    """Whether it is a retry or a redirect of its parent."""
    not_before: float | None = None
    """Unix time before which it is not handed out."""
    of_start: bool = False
    """Whether ``start()`` has yielded it."""
    forced: bool = False
    """Whether it is accepted even if it was seen."""
    after_form: bool = False
    """Whether it is the redirect of a form that was posted."""


class Engine(LeaseEngine, Protocol):
    """Where a crawl keeps its requests."""

    durable: bool
    """Whether anything survives the process."""
    has_feeds: bool
    """Whether it hands over each item with its lines, to :meth:`Session.take_item`."""
    rules: RulesInForce
    """Rules of the user that keep requests out."""

    @property
    def hurries(self) -> bool:
        """Whether callbacks pause, because their output is kept in memory."""

    @property
    def holds(self) -> bool:
        """Whether callbacks that have not begun must wait for a checkpoint."""

    @property
    def starting(self) -> Starting:
        """Decides on the output of ``start()``."""

    @property
    def keeps_cookies(self) -> bool:
        """Whether cookies are kept, so that requests need none of their own."""

    # Acceptance

    def slot_of(self, request: Request, parent: Lease | None) -> str:
        """Return the downloader's slot of a request, which ``parent`` has yielded."""

    def knows(self, key: bytes, *, exact: bool, of: Request | None = None) -> bool:
        """Whether a mark ``of`` a request is certainly set; asked for every link.

        Without a request it is a mark of ``start()``.
        """

    def has_room(self, request: Request) -> bool:
        """Whether the slot of a request may have another request."""

    def concerns(self, request: Request, follows: Lease | None) -> bool:
        """Whether a request needs a payload in memory, because it comes again."""

    def take(self, offer: Accepted) -> bool:
        """Make a request pending and mark it; False if it is a duplicate."""

    # Handing out

    def next(self) -> Entry | None:
        """Hand out a request of a slot that is free, if there is any."""

    def seconds_until_ready(self) -> float | None:
        """Return the seconds until a further slot is free, or None if unknown."""

    def set_aside(self, entry: Entry, why: str) -> None:
        """Keep a request that cannot be restored."""

    def keeps_out(self, entry: Entry, request: Request) -> bool:
        """Remove a request that is handed out if a rule refuses it by now."""

    # Output

    def add_line(self, outcome: Outcome, line: Line) -> None:
        """Add a line to the output of a request; raises :class:`OSError`."""

    def put(self, outcome: Outcome, *, counts: bool) -> None:
        """Let output count, or forget it, that belongs to no request in progress."""

    # The end

    def __len__(self) -> int:
        """Count the requests that are pending here."""

    @property
    def standing(self) -> Standing:
        """How the crawl stands, as far as it depends on requests."""

    def commit(self) -> None:
        """Make everything durable before the crawl ends, which may be refused."""

    @property
    def held_back(self) -> Sequence[str]:
        """Names of the feeds that are delivered when the crawl has finished."""

    @property
    def why_left(self) -> str:
        """Why requests are left of which this run does not know more."""

    @property
    def remedy(self) -> str:
        """Where requests stay that are left, and the remedy, for a message."""

    def close(self, reason: str) -> None:
        """Make everything durable; ``reason`` is that of the end of the crawl."""
