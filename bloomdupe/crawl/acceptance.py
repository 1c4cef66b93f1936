"""Acceptance: whether a request is accepted, and in which form it is stored."""

from __future__ import annotations

import time
from copy import copy
from typing import TYPE_CHECKING

from bloomdupe.crawl.in_flight.request import Accepted
from bloomdupe.crawl.retries import (
    REVISIT,
    TIME_KEYS,
    checked_rule,
    is_retry,
    is_start,
    time_of,
    tries_of,
    without_time,
)
from bloomdupe.crawl.starting import SAFE
from bloomdupe.crawl.state.cookies import without_cookie_header
from bloomdupe.errors import UnserializableError
from bloomdupe.frontier.sent_request import SentRequest
from bloomdupe.links.link_filter import Duplicate
from bloomdupe.printable import logger_of
from bloomdupe.requests.layout import Visit

if TYPE_CHECKING:
    from types import CodeType

    from scrapy import Request
    from scrapy.dupefilters import BaseDupeFilter

    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.in_flight.outcomes import Key
    from bloomdupe.crawl.in_flight.request import InFlightRequest

logger = logger_of(__name__)

ASKING = frozenset({*TIME_KEYS, REVISIT})
"""Keys of ``meta`` with options for the scheduler."""
POLLING = (
    "start() yields %(request)s again and again, and an earlier run has scheduled it so"
    " often already, so this run skips it as often. If start() polls this page without"
    " end, set BLOOMDUPE_START_REQUESTS = 'always': then each run schedules all that"
    " start() yields. The stat bloomdupe/start_requests_skipped counts the requests"
    " that are skipped"
)
UNSERIALIZABLE = (
    "%(request)s cannot be stored: %(reason)s. Such requests live in memory only, and"
    " are not revisited. The page that yielded such a request is not done before the"
    " request is, so after a crash the page is fetched again; one of no page (of"
    " spider_idle, say) is lost then, unless start() yields it. No more of this kind"
    " will be logged (see the stat scheduler/unserializable)"
)


class Acceptance:
    """Decides on requests for an open crawl, and hands accepted requests to its engine.

    With ``marks`` the engine knows and marks them, else ``dupefilter``, which is
    foreign.
    """

    def __init__(
        self, session: Session, dupefilter: BaseDupeFilter, *, marks: bool
    ) -> None:
        self._spider = session.spider
        self._stats = session.stats
        self._session = session
        self._engine = session.engine
        self._dupefilter = dupefilter
        self._marks = marks
        self._warned: set[CodeType | str | None] = set()
        """What the warnings so far were about: callbacks, polling."""

    def takes(self, request: Request) -> bool:
        """Accept a request; False if it was dropped.

        Raises the errors of :func:`check_asked`, before the request is marked.
        """
        not_before = check_asked(request)
        session, engine = self._session, self._engine
        work = session.parent()
        if engine.durable and work is not None and work.is_dropped:
            return False  # its page yields it again
        answers = session.processing.answering is not None
        form = has_posted(work)
        start = engine.starting.takes(request)
        forced = request.dont_filter or (answers and was_visited(work))
        # Scrapy's filter does not see a request with dont_filter, so a link to its page
        # is new; and a foreign filter does not mark in the store.
        marked = self._marks and (start or not request.dont_filter)
        # Scrapy asks the fingerprinter of no other request, either.
        keys = [self._key_of(request)] if marked else []
        if start:
            key = keys[0] if keys else self._key_of(request)
            skip, forced, further = engine.starting.judge(
                request, key, forced=forced, marked=self._marks
            )
            if skip:
                self._stats.inc_value("bloomdupe/start_requests_skipped")
                session.access.wake_start()
                if engine.starting.repeats_itself:
                    self._warn("polling", POLLING, request)
                return False
            engine.failures.start_yields(request)
            keys += further
        has_room = answers or start
        if not (forced or self._passes(request, keys, has_room=has_room, form=form)):
            return False
        request, not_before, repeats = self._delayed(
            request, work, not_before, answers=answers
        )
        if keys and engine.starting.has_rounds(request.method):
            keys.append(session.key_of(request))  # by which a verb finds it
        slot = engine.slot_of(request)  # it may change the request
        payload = self._payload(request, work if repeats else None)
        if start and forced and not request.dont_filter:
            # So that its redirect is followed, although that was seen, too.
            if payload:
                payload = Visit(forced=True).added_to(payload)
            else:
                request = copy(request)  # replace() would run its constructor
                request.dont_filter = True
        sent = SentRequest(
            slot, request.priority, payload or b"", keys, is_start(request),
            not_before, forced, form, repeats or start,
            engine.host_of(request, slot) if keys else None,
        )  # fmt: skip
        engine.take(Accepted(request, sent, work, start, payload is None))
        return True

    def _key_of(self, request: Request) -> Key:
        fingerprint, exact = self._session.key_of(request)
        return self._engine.starting.of_round(fingerprint, request.method), exact

    def _passes(
        self,
        request: Request,
        keys: list[Key],
        *,
        has_room: bool,
        form: bool,
    ) -> bool:
        """Whether a request is no duplicate, and its slot has room for it.

        Some ``has_room`` always: a retry, a redirect, a request of ``start()``. Unless
        the filter is foreign, the first of the ``keys`` is the request's own, and a
        second key may be added.
        """
        engine, filter_ = self._engine, self._dupefilter
        if not self._marks:  # a foreign filter marks what it lets pass
            if not (has_room or engine.has_room(request)):
                return False
            if not filter_.request_seen(request):
                return True
            filter_.log(request, self._spider)
            return False
        key, exact = keys[0]
        if engine.knows(key, exact=exact, of=request):
            second = engine.starting.second_use(request, keys[0], form=form)
            if second is None:
                filter_.log(request, self._spider)
                return False
            keys.append(second)
        return has_room or engine.has_room(request)

    def would_drop(self, request: Request) -> Duplicate:
        """Whether a request would be dropped as a duplicate; for the link filter."""
        engine, key = self._engine, self._key_of(request)
        if not engine.knows(key[0], exact=key[1], of=request):
            return Duplicate.NO
        if not engine.starting.is_page(key, request):
            return Duplicate.ALL
        form = has_posted(self._session.parent())
        passes = engine.starting.second_use(request, key, form=form)
        return Duplicate.NO if passes else Duplicate.THIS

    def _delayed(
        self,
        request: Request,
        parent: InFlightRequest | None,
        not_before: float | None,
        *,
        answers: bool,
    ) -> tuple[Request, float | None, bool]:
        """Return a request without its time, its time, and whether it repeats another.

        It does so as a retry or a redirect of its parent, which is not revisited then.
        """
        request, growing = without_time(request), self._session.growing
        is_again = is_retry(request, parent)
        if is_again and growing is not None:
            if answers and parent is not None and not parent.try_counts:
                # It waits in its slot until that answers again.
                self._stats.inc_value("bloomdupe/retries_not_counted")
                request = request.copy()
                request.meta["retry_times"] = tries_of(parent.request)
            else:
                due = time.time() + growing.seconds(tries_of(request))
                not_before = max(due, not_before or 0.0)
        return request, not_before, answers or (is_again and parent is not None)

    def _payload(self, request: Request, of: InFlightRequest | None) -> bytes | None:
        """Return a request as bytes, if it is stored; ``of``: the one that it repeats.

        A stored request is always made anew from its payload, with or without a crash,
        so that it shares no values with other objects.
        """
        engine, serializer = self._engine, self._session.serializer
        if not (engine.durable or engine.revisits.concerns(request, of)):
            return b""
        if engine.cookies is not None:
            request = without_cookie_header(request)
        try:
            return serializer.dump(request)
        except UnserializableError as error:
            function = getattr(request.callback, "__code__", None)
            self._warn(function, UNSERIALIZABLE, request, error)
            self._stats.inc_value("scheduler/unserializable")
            return None if engine.durable else b""

    def _warn(
        self,
        about: CodeType | str | None,
        message: str,
        request: Request,
        reason: Exception | None = None,
    ) -> None:
        """Log a warning, the first that is about something."""
        if about not in self._warned:
            self._warned.add(about)
            values = {"request": request, "reason": reason}
            logger.warning(message, values)


def check_asked(request: Request) -> float | None:
    """Check what a request asks the scheduler for; return its time, if it has any.

    Raises :class:`UnserializableError` for an invalid time, and for a priority that
    Scrapy's constructor refuses, and that was set later.
    """
    priority = request.priority
    if not isinstance(priority, int):
        raise UnserializableError(f"its priority, {priority!r}, is not an integer")
    if ASKING.isdisjoint(request.meta):
        return None
    checked_rule(request)
    return time_of(request, time.time())


def was_visited(in_flight: InFlightRequest | None) -> bool:
    """Whether a page was visited before: its redirect leads to a URL that was seen."""
    if in_flight is None:
        return False
    visit = in_flight.visit
    return visit.known or visit.forced


def has_posted(work: InFlightRequest | None) -> bool:
    """Whether a form was posted with a request, such as a login."""
    return work is not None and work.request.method not in SAFE
