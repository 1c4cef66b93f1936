"""Revisits: pages that come again, in the same job, whether they were seen or not."""

from __future__ import annotations

import hashlib
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from scrapy import Request
from scrapy.http import Response
from twisted.python.failure import Failure

from bloomdupe.crawl.requests.visits import ADAPTIVE, NOT_MODIFIED, Look, Visit
from bloomdupe.errors import RequestTimeError, StoreError
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.requests.visits import Rule

logger = logger_of(__name__)

REVISIT = "bloomdupe_revisit"
"""In ``meta``: seconds, ``adaptive``, or None for never."""
DIGEST = "bloomdupe_digest"
"""In the ``meta`` of a response: a callback's own content of the page, compared instead
of its body.
"""

DIGEST_BYTES = 16


def checked_rule(request: Request) -> Rule | None:
    """Return the rule in a request's ``meta``: when its page comes again.

    Raises :class:`~bloomdupe.errors.RequestTimeError` if it is not a valid rule.
    """
    rule = request.meta.get(REVISIT)
    if rule is None or rule is False or rule == ADAPTIVE:
        return rule or None
    if isinstance(rule, (int, float)) and not isinstance(rule, bool):
        seconds = float(rule)
        if 0 < seconds < math.inf:
            return seconds
    raise RequestTimeError(
        f"meta[{REVISIT!r}] = {rule!r}: expected a positive number of seconds,"
        f" {ADAPTIVE!r}, or None"
    )


class NextVisit(NamedTuple):
    """The request for the next visit to a page."""

    slot: str
    priority: int
    payload: bytes
    start: bool
    """Whether it has its turn after other requests of its priority."""
    not_before: float
    """Unix time."""
    mark: bytes | None
    """The mark which says that the page comes again, if it has been visited once."""
    renewed: bool
    """Whether it comes again though the mark is set."""


class Revisits:
    """Lets pages come again when they are done.

    When a request with a rule is settled, ``schedule`` gets the same request for its
    next time, to make it durable in the same step. It does not pass the filter. The
    known facts about the page travel with it
    (:class:`~bloomdupe.crawl.requests.visits.Visit`), in its payload and not in its
    ``meta``. A redirect or retry inherits them. A mark in the filter says which pages
    come again already, so that a page that is scheduled twice comes again only once.
    """

    def __init__(
        self,
        session: Session,
        schedule: Callable[[Lease, NextVisit], None],
    ) -> None:
        settings = session.settings
        self._session = session
        self._stats = session.stats
        self._rules = settings.revisit
        self._bounds = settings.revisit_bounds
        self._all_items = settings.revisit_items == "always"
        self._schedule = schedule
        self._warned = False
        leases = session.leases
        leases.answered.append(self.answered)
        leases.settling.append(self.settling)
        leases.leaves_out = self.leaves_out

    def rule_of(self, request: Request) -> Rule | None:
        """Return when a page comes again; None: never."""
        if REVISIT in request.meta:
            return checked_rule(request)
        for pattern, rule in self._rules:
            if pattern.search(request.url):
                return rule
        return None

    def concerns(self, request: Request, follows: Lease | None) -> bool:
        """Whether a page comes again.

        ``follows`` is the lease that this request is a retry or redirect of.
        """
        if follows is not None:
            return follows.visit is not None or self._rule(follows) is not None
        return self.rule_of(request) is not None

    # On the way out

    def begin_visit(self, lease: Lease, visit: Visit) -> None:
        """Make the request of a known page conditional on a change."""
        request, headers = lease.request, lease.request.headers
        if not visit.visits or request.method not in ("GET", "HEAD"):
            return
        if self._rule(lease) is not None and "If-None-Match" not in headers:
            if visit.etag is not None:
                headers["If-None-Match"] = visit.etag
            if visit.modified is not None and "If-Modified-Since" not in headers:
                headers["If-Modified-Since"] = visit.modified

    def _ask_no_more(self, lease: Lease, visit: Visit) -> None:
        """Remove the headers that :meth:`begin_visit` has added.

        Otherwise a callback that copies ``response.request`` would copy them.
        """
        headers = lease.request.headers
        if visit.etag is not None and headers.get("If-None-Match") == visit.etag:
            del headers["If-None-Match"]
        modified = visit.modified
        if modified is not None and headers.get("If-Modified-Since") == modified:
            del headers["If-Modified-Since"]

    def follow(self, lease: Lease) -> Visit | None:
        """Return the visit that a retry or redirect of a request inherits."""
        visit = lease.visit or Visit()
        rule = visit.rule or self._rule(lease)
        lease.look = None
        if rule is None or not lease.entry.payload:
            return None
        origin = visit.origin or lease.entry.payload
        return replace(visit, rule=rule, origin=origin, name=None)

    def _rule(self, lease: Lease) -> Rule | None:
        if lease.visit is not None and lease.visit.rule is not None:
            return lease.visit.rule
        try:
            return self.rule_of(lease.request)
        except RequestTimeError as error:  # a middleware has put it there since
            logger.error(  # noqa: TRY400 - the reason says it all
                "%(request)s does not come again: %(reason)s",
                {"request": lease.request, "reason": error},
                extra={"spider": self._session.spider},
            )
            return None

    # On the way back

    def answered(self, lease: Lease, result: object) -> None:
        """Look at the answer, before the callback does."""
        if isinstance(result, Request):
            return
        if lease.visit is not None:
            self._ask_no_more(lease, lease.visit)
        elif not (self._rules or REVISIT in lease.request.meta):
            return
        if self._rule(lease) is None:
            return
        if isinstance(result, Failure):
            lease.look = Look(time.time(), 0)
        elif isinstance(result, Response):
            if result.request is not None:
                # So that only the callback of this page can set it.
                result.meta.pop(DIGEST, None)
                lease.names = result.meta
            lease.look = Look(
                time.time(),
                result.status,
                _digest(result.body),
                result.headers.get("ETag"),
                result.headers.get("Last-Modified"),
            )
            lease.silent = (
                result.status == NOT_MODIFIED
                and lease.visit is not None
                and not self._wants_not_modified(lease.request)
            )

    def _wants_not_modified(self, request: Request) -> bool:
        settings, spider = self._session.crawler.settings, self._session.spider
        lists = (
            request.meta.get("handle_httpstatus_list"),
            getattr(spider, "handle_httpstatus_list", None),
            [int(code) for code in settings.getlist("HTTPERROR_ALLOWED_CODES")],
        )
        return any(NOT_MODIFIED in (codes or ()) for codes in lists)

    def leaves_out(self, lease: Lease) -> bool:
        """Whether an item of a page is left out, because the page has not changed."""
        visit, look = lease.visit, lease.look
        if self._all_items or visit is None or look is None or not visit.visits:
            return False
        if not visit.is_unchanged(self._named(lease, look)):
            return False
        self._stats.inc_value("bloomdupe/items_unchanged")
        return True

    def _named(self, lease: Lease, look: Look) -> Look:
        named = lease.names.get(DIGEST) if lease.names is not None else None
        if named is None:
            return look
        value = (
            named if isinstance(named, bytes) else str(named).encode(errors="replace")
        )
        return replace(look, digest=_digest(value))

    def settling(self, lease: Lease) -> None:
        """Schedule the page of a request that is settled for its next visit."""
        look = lease.look
        if look is None:
            return
        lease.look = None
        visit = lease.visit or Visit()
        if not (visit.visits or look.is_good):
            return  # it was never there
        payload = visit.origin or lease.entry.payload
        if not payload:
            self._warn(lease.request)
            return
        rule = self._rule(lease)
        if rule is None:  # a callback has removed it
            return
        look = self._named(lease, look)
        if lease.spoiled:  # the next visit must not find that nothing has changed
            look = replace(look, digest=b"", etag=None, modified=None)
        try:
            self._schedule(lease, self._next_visit(payload, visit, look, rule))
        except StoreError as error:
            self._session.stopping.fail(error)

    def _next_visit(
        self, payload: bytes, visit: Visit, look: Look, rule: Rule
    ) -> NextVisit:
        request = self._session.serializer.load(payload)
        mark, renewed = None, visit.renewed
        if visit.visits:
            self._count(visit, look)
        else:
            mark = b"visit " + self._session.fingerprint(request)
        visit = replace(
            visit.after(look, rule, self._bounds),
            rule=None,
            origin=None,
            name=None,
            renewed=False,
        )
        return NextVisit(
            self._session.access.slot_of(request),
            request.priority,
            self._session.serializer.with_visit(payload, visit.values),
            self._session.comes_last(request),
            look.when + visit.interval,
            mark,
            renewed,
        )

    def _count(self, visit: Visit, look: Look) -> None:
        self._stats.inc_value("bloomdupe/revisits")
        if visit.is_unchanged(look):
            self._stats.inc_value("bloomdupe/revisits_unchanged")
        elif look.is_good:
            self._stats.inc_value("bloomdupe/revisits_changed")
        else:
            self._stats.inc_value("bloomdupe/revisits_failed")

    def _warn(self, request: Request) -> None:
        if self._warned:
            return
        self._warned = True
        logger.warning(
            "%(request)s does not come again, for it cannot be stored: %(reason)s. No"
            " more of them will be logged",
            {"request": request, "reason": self._session.serializer.explain(request)},
            extra={"spider": self._session.spider},
        )


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()
