"""Revisits: pages that come again, in the same job, whether they were seen or not."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http import Response

from bloomdupe.errors import RequestTimeError, StoreError, UnserializableError
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.printable import logger_of
from bloomdupe.requests.layout import Visit

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.leases.lease import Lease

logger = logger_of(__name__)

REVISIT = "bloomdupe_revisit"
"""In ``meta``: seconds, or None for never."""


def checked_rule(request: Request) -> float | None:
    """Return the rule in a request's ``meta``: seconds, or None for never.

    Raises :class:`~bloomdupe.errors.RequestTimeError` if it is not a valid rule.
    """
    rule = request.meta.get(REVISIT)
    if rule is None or rule is False:
        return None
    if isinstance(rule, (int, float)) and not isinstance(rule, bool):
        seconds = float(rule)
        if 0 < seconds < math.inf:
            return seconds
    raise RequestTimeError(
        f"meta[{REVISIT!r}] = {rule!r}: expected a positive number of seconds, or None"
    )


class Revisits:
    """Lets pages come again when they are done.

    When a request with a rule is settled, ``schedule`` gets the same request for its
    next time, to make it durable in the same step. It does not pass the filter. The
    known facts about the page travel with it
    (:class:`~bloomdupe.requests.layout.Visit`), in its payload and not in its
    ``meta``. A redirect or retry inherits them. A mark in the filter says which pages
    come again already, so that a page that is scheduled twice comes again only once.
    """

    def __init__(
        self,
        session: Session,
        schedule: Callable[[SentRequest], None],
    ) -> None:
        settings = session.settings
        self._session = session
        self._stats = session.stats
        self._rules = settings.revisit
        self._schedule = schedule
        self._warned = False
        leases = session.leases
        leases.answered.append(self.answered)
        leases.settling.append(self.settling)

    def rule_of(self, request: Request) -> float | None:
        """Return after how many seconds a page comes again; None: never."""
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

    def follow(self, lease: Lease) -> Visit | None:
        """Return the visit that a retry or redirect of a request inherits."""
        visit = lease.visit or Visit()
        rule = self._rule(lease)
        lease.outcome.visited = None
        if rule is None or not lease.entry.payload:
            return None
        origin = visit.origin or lease.entry.payload
        return replace(visit, rule=rule, origin=origin)

    def _rule(self, lease: Lease) -> float | None:
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

    def answered(self, lease: Lease, result: object) -> None:
        """Note the time of the visit, if the page is there or was there before."""
        known = lease.visit is not None and lease.visit.known
        found = isinstance(result, Response) and result.status < 400
        if isinstance(result, Request) or not (found or known):
            return
        if lease is lease.root and self._rule(lease) is not None:
            lease.outcome.visited = time.time()

    def settling(self, lease: Lease) -> None:
        """Schedule the page of a request that is settled for its next visit."""
        visited, lease.outcome.visited = lease.outcome.visited, None
        rule = None if visited is None else self._rule(lease)
        if visited is None or rule is None:  # a callback has removed the rule
            return
        visit = lease.visit or Visit()
        payload = visit.origin or lease.entry.payload
        if not payload:
            self._warn(lease.request)
            return
        try:
            self._schedule(self._next_visit(payload, visit, visited + rule))
        except StoreError as error:
            self._session.stopping.fail(error)

    def _next_visit(self, payload: bytes, visit: Visit, due: float) -> SentRequest:
        """Return the request for the next visit.

        After the first visit it has the mark which says that the page comes again.
        """
        request = self._session.serializer.load(payload)
        keys: tuple[tuple[bytes, bool], ...] = ()
        if visit.known:
            self._stats.inc_value("bloomdupe/revisits")
        else:
            keys = ((b"visit " + self._session.fingerprint(request), False),)
        return SentRequest(
            self._session.access.slot_of(request),
            request.priority,
            Visit(known=True).added_to(payload),
            keys,
            self._session.comes_last(request),
            due,
            dont_filter=visit.known or visit.renewed,
        )

    def _warn(self, request: Request) -> None:
        if self._warned:
            return
        self._warned = True
        try:
            self._session.serializer.dump(request)
        except UnserializableError as error:
            logger.warning(
                "%(request)s does not come again, for it cannot be stored: %(reason)s."
                " No more of them will be logged",
                {"request": request, "reason": error},
                extra={"spider": self._session.spider},
            )
