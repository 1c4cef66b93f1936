"""Requests that are delayed: by a time that they name, as a retry or a revisit."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.http import Response

from bloomdupe.errors import UnserializableError, shown
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.printable import logger_of
from bloomdupe.requests.layout import Visit

if TYPE_CHECKING:
    from collections.abc import Callable

    from bloomdupe.crawl.engines.crawl_engine import CrawlEngine
    from bloomdupe.crawl.in_flight.request import InFlightRequest

logger = logger_of(__name__)


@dataclass(frozen=True)
class GrowingWait:
    """Waits that grow by a factor up to a limit; half of each wait is random.

    This is *equal jitter* as in Marc Brooker, "Exponential Backoff And Jitter", AWS
    Architecture Blog, 2015: randomness keeps requests that have failed together from
    coming back together. His *full jitter* may wait for no time at all, and a server
    that has just failed would get all tries at once.
    """

    base: float
    """Seconds after the first failure, at most."""
    factor: float
    limit: float
    """Seconds, at most."""
    draw: Callable[[], float] = random.random
    """Returns a number from 0 to 1."""

    def longest(self, failures: int) -> float:
        """Return the longest wait after so many failures in a row, in seconds."""
        try:
            return min(self.base * float(self.factor) ** (failures - 1), self.limit)
        except OverflowError:
            return self.limit

    def seconds(self, failures: int) -> float:
        """Draw the wait after so many failures in a row."""
        return self.longest(failures) * (1 + self.draw()) / 2


def tries_of(request: Request) -> int:
    """Return how often a request was retried, as Scrapy counts it."""
    tries = request.meta.get("retry_times", 0)
    return tries if isinstance(tries, int) else 0


def is_start(request: Request) -> bool:
    """Whether it is a start request, or a retry or a redirect of one."""
    return bool(request.meta.get("is_start_request"))


def is_retry(request: Request, in_flight: InFlightRequest | None) -> bool:
    """Whether a request is a retry of the request of ``in_flight``.

    A retry has a higher retry count. A request with the same count was made with a copy
    of ``meta``, or is a redirect.
    """
    if not request.dont_filter:
        return False
    before = 0 if in_flight is None else tries_of(in_flight.request)
    return tries_of(request) > before


NOT_BEFORE = "bloomdupe_not_before"
"""Unix seconds, or a datetime that knows its time zone."""
DELAY = "bloomdupe_delay"
"""Seconds from now."""

TIME_KEYS = (NOT_BEFORE, DELAY)

YEAR_10000 = 253_402_300_800.0
"""Unix time; ``datetime`` ends there, too."""


def time_of(request: Request, now: float) -> float | None:
    """Return the Unix time before which a request is not to be handed out, if any.

    Raises :class:`~bloomdupe.errors.UnserializableError`, which names key and value, if
    the time is invalid.
    """
    meta = request.meta
    if NOT_BEFORE in meta and DELAY in meta:
        raise UnserializableError(
            f"its meta has both {NOT_BEFORE!r} and {DELAY!r}; give one of them"
        )
    if DELAY in meta:
        return now + _number(
            DELAY, meta[DELAY], "seconds, for a time before the year 10000"
        )
    if NOT_BEFORE not in meta:
        return None
    value = meta[NOT_BEFORE]
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise UnserializableError(
                f"meta[{NOT_BEFORE!r}] = {value!r} has no time zone: give it one, such"
                " as datetime.now(timezone.utc) has"
            )
        return value.timestamp()
    what = "Unix seconds before the year 10000 or a datetime with a time zone"
    return _number(NOT_BEFORE, value, what)


def without_time(request: Request) -> Request:
    """Return the request without a time: its retries and redirects do not wait."""
    if request.meta.keys().isdisjoint(TIME_KEYS):
        return request
    copy = request.copy()
    copy.meta.pop(NOT_BEFORE, None)
    copy.meta.pop(DELAY, None)
    return copy


def _number(name: str, value: object, what: str, above: float = -math.inf) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not above < value < YEAR_10000
    ):
        raise UnserializableError(f"meta[{name!r}] = {shown(value)}: expected {what}")
    return float(value)


REVISIT = "bloomdupe_revisit"
"""In ``meta``: seconds, or None for never."""


def checked_rule(request: Request) -> float | None:
    """Return the rule in a request's ``meta``: seconds, or None for never.

    Raises :class:`~bloomdupe.errors.UnserializableError` if it is not a valid rule.
    """
    rule = request.meta.get(REVISIT)
    if rule is None or rule is False:
        return None
    return _number(REVISIT, rule, "a positive number of seconds, or None", 0.0)


class Revisits:
    """Lets pages be revisited when they are done.

    When a request with a rule is acknowledged, the engine gets the same request for its
    next time, to make it durable in the same step. It does not pass the filter. The
    known facts about the page travel with it
    (:class:`~bloomdupe.requests.layout.Visit`), in its payload and not in its ``meta``.
    A redirect or retry inherits them. A key in the filter says which pages are
    revisited already, so that a page that is scheduled twice is revisited only once.
    """

    def __init__(self, engine: CrawlEngine) -> None:
        session = self._session = engine.session
        self._engine = engine
        self._stats = session.stats
        self._rules = session.settings.revisit

    def rule_of(self, request: Request) -> float | None:
        """Return after how many seconds a page is revisited; None: never."""
        if REVISIT in request.meta:
            return checked_rule(request)
        for pattern, rule in self._rules:
            if pattern.search(request.url):
                return rule
        return None

    def concerns(self, request: Request, follows: InFlightRequest | None) -> bool:
        """Whether a page is revisited.

        ``follows`` is the request in flight of which it is a retry or redirect.
        """
        if follows is not None:
            return self._rule(follows) is not None
        return self.rule_of(request) is not None

    def follow(self, in_flight: InFlightRequest, url: str) -> Visit:
        """Return the visit that a retry or redirect of a request inherits."""
        visit, rule = in_flight.visit, self._rule(in_flight)
        in_flight.outcome.visited = None
        failure = visit.failure if url == in_flight.request.url else None
        if rule is None or not in_flight.entry.payload:
            return Visit(failure=failure, forced=visit.forced)
        origin = visit.origin or in_flight.entry.payload
        return replace(visit, rule=rule, origin=origin, failure=failure)

    def _rule(self, in_flight: InFlightRequest) -> float | None:
        if in_flight.visit.rule is not None:
            return in_flight.visit.rule
        try:
            return self.rule_of(in_flight.request)
        except UnserializableError as error:  # a middleware has put it there since
            logger.error(  # noqa: TRY400 - the reason says it all
                "%(request)s is not revisited: %(reason)s",
                {"request": in_flight.request, "reason": error},
            )
            return None

    def answered(self, in_flight: InFlightRequest, result: object) -> None:
        """Note the time of the visit, if the page is there or was there before."""
        found = isinstance(result, Response) and result.status < 400
        if isinstance(result, Request) or not (found or in_flight.visit.known):
            return
        if in_flight is in_flight.root and self._rule(in_flight) is not None:
            in_flight.outcome.visited = time.time()

    def acked(self, in_flight: InFlightRequest) -> None:
        """Schedule the page of a request that is acknowledged for its next visit."""
        visited, rule = in_flight.outcome.visited, self._rule(in_flight)
        if visited is None or rule is None:  # a callback has removed the rule
            return
        visit = in_flight.visit
        payload = visit.origin or in_flight.entry.payload
        if not payload:  # it could not be stored, as the log says
            return
        self._engine.schedule_visit(self._next_visit(payload, visit, visited + rule))

    def _next_visit(self, payload: bytes, visit: Visit, due: float) -> SentRequest:
        """Return the request for the next visit.

        After the first visit it has the key which says that the page is revisited.
        """
        request = self._session.serializer.load(payload)
        keys: tuple[tuple[bytes, bool], ...] = ()
        if visit.known:
            self._stats.inc_value("bloomdupe/revisits")
        else:
            keys = ((b"visit " + self._session.fingerprint(request), False),)
        slot = self._session.access.slot_of(request)
        return SentRequest(
            slot,
            request.priority,
            Visit(known=True).added_to(payload),
            keys,
            is_start(request),
            due,
            dont_filter=visit.known or visit.renewed,
            repeats=True,
            host=self._engine.host_of(request, slot) if keys else None,
        )
