"""Acceptance: whether a request is accepted, and in which form it is stored."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bloomdupe.crawl.later.not_before import TIME_KEYS, time_of, without_time
from bloomdupe.crawl.later.retries import is_retry
from bloomdupe.crawl.later.revisits import REVISIT
from bloomdupe.crawl.leases.lease import InMemory
from bloomdupe.crawl.requests.identity import identity_of, is_once_more
from bloomdupe.crawl.requests.visits import Visit
from bloomdupe.crawl.start_outputs import second_name
from bloomdupe.crawl.state.cookies_packed import without_cookie_header
from bloomdupe.errors import StoreError, UnserializableError
from bloomdupe.links.link_filter import Duplicate
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.dupefilters import BaseDupeFilter

    from bloomdupe.crawl.dupefilter import BloomDupeFilter
    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.leases.lease import Key, Lease

__all__ = ["ASKING", "Acceptance"]

logger = logger_of(__name__)

ASKING = frozenset({*TIME_KEYS, REVISIT})
"""Keys of ``meta`` with options for the scheduler."""
RETRY = b" retry"
"""Suffix of the identity of a request that is a retry of its parent."""


class Acceptance:
    """Decides on requests for an open crawl, and makes accepted requests pending.

    ``ours`` is the filter that marks them together with the frontier; without it,
    ``dupefilter`` is a foreign filter.
    """

    def __init__(
        self,
        crawler: Crawler,
        session: Session,
        dupefilter: BaseDupeFilter,
        ours: BloomDupeFilter | None,
        fingerprint: Callable[[Request], bytes],
    ) -> None:
        assert crawler.spider is not None  # noqa: S101 - the crawl is open
        assert crawler.stats is not None  # noqa: S101 - likewise
        self._spider = crawler.spider
        self._stats = crawler.stats
        self._session = session
        self._dupefilter = dupefilter
        self._ours = ours
        self._fingerprint = fingerprint
        self._warned = self._warned_of_polling = False

    def takes(self, request: Request) -> bool:
        """Accept a request and mark it; False if it was dropped."""
        session, ours = self._session, self._ours
        parent = session.parent()
        start = session.starting.takes(request)
        forced = self._is_forced(request, parent)
        if ours is None:
            key, exact = self._fingerprint(request), False
        else:
            key, exact = ours.key_of(request)
        identity = self._identity(request, parent, key, start=start)
        if self._is_recognised(request, parent, identity):
            return True
        # Scrapy's filter does not see a request with dont_filter, so a link to its page
        # is new; and a foreign filter does not mark in the store.
        marks = ours is not None and (start or not request.dont_filter)
        keys = [(key, exact)] if marks else []
        name = None
        if start:
            skip, forced, further, name = session.starting.judge(
                session.frontier.seen,
                key,
                identity,
                forced=forced,
                marked=ours is not None,
                exact=exact,
            )
            if skip:
                self._stats.inc_value("bloomdupe/start_requests_skipped")
                if session.starting.repeats_itself(identity):
                    self._warn_of_polling(request)
                return False
            keys += further
            if forced and not request.dont_filter:
                # So that its redirect is followed, although that was seen, too.
                request = copy(request)  # replace() would run its constructor
                request.dont_filter = True
        if not forced and not self._passes(request, parent, keys):
            return False
        name = keys[-1][0] if keys and not start else name
        if parent is not None and self._is_held(request, parent, key):
            parent.instead = partial(self.push, request, parent, identity, [])
        elif self.push(request, parent, identity, keys, name=name):
            self._mark(keys)
        return True

    def _mark(self, keys: list[Key]) -> None:
        """Mark a stored request as seen.

        A fingerprint that it shares with a request in memory is marked when that
        request is done: after a crash, the other one must not count as seen.
        """
        session = self._session
        for key, exact in keys:
            if key not in session.unmarked:
                session.frontier.seen.add(key, exact=exact)

    def _passes(self, request: Request, parent: Lease | None, keys: list[Key]) -> bool:
        """Whether a request is not a duplicate; add further marks to ``keys``.

        If our filter is used, the first key is the request's fingerprint.
        """
        if self._ours is None:
            return self._passes_other(request)
        return self._passes_ours(self._ours, request, parent, keys)

    def _passes_other(self, request: Request) -> bool:
        """Ask a foreign filter, which marks the request at the same time."""
        if not self._within_limits(request):
            return False
        if self._dupefilter.request_seen(request):
            self._dupefilter.log(request, self._spider)
            return False
        return True

    def _passes_ours(
        self,
        ours: BloomDupeFilter,
        request: Request,
        parent: Lease | None,
        keys: list[Key],
    ) -> bool:
        """Ask our filter."""
        session, (key, exact) = self._session, keys[0]
        seen = session.frontier.seen
        if key in session.unmarked or seen.contains(key, exact=exact):
            mark = self._second_use(request, parent, key, exact=exact)
            if key in session.unmarked or mark is None:
                ours.log(request, self._spider)
                return False
            keys.append(mark)
        return self._within_limits(request)

    def _second_use(
        self, request: Request, parent: Lease | None, key: bytes, *, exact: bool
    ) -> Key | None:
        """Return the mark of a start page's second use, if it passes as that."""
        session = self._session
        if parent is None or not session.starting.is_second_use(
            request, key, parent.request
        ):
            return None
        mark = second_name(key), exact and session.run.marks_exactly
        return None if session.frontier.seen.contains(mark[0], exact=mark[1]) else mark

    def would_drop(self, request: Request) -> Duplicate:
        """Whether a request would be dropped as a duplicate; for the link filter."""
        if self._ours is None:
            return Duplicate.NO
        key, exact = self._ours.key_of(request)
        if key in self._session.unmarked:
            return Duplicate.ALL
        session = self._session
        try:
            if not session.frontier.seen.contains(key, exact=exact):
                return Duplicate.NO
            if not session.starting.is_page(key):
                return Duplicate.ALL
            mark = self._second_use(request, session.parent(), key, exact=exact)
        except StoreError:
            return Duplicate.NO  # it will fail again when the request is scheduled
        return Duplicate.THIS if mark is None else Duplicate.NO

    def _is_forced(self, request: Request, parent: Lease | None) -> bool:
        """Whether a request is accepted even if it was seen."""
        if request.dont_filter or self._session.processing.answering is None:
            return request.dont_filter
        # The target of its redirect was seen at the last visit.
        visit = None if parent is None else parent.visit
        return visit is not None and visit.visits > 0

    def _identity(
        self, request: Request, parent: Lease | None, key: bytes, *, start: bool
    ) -> bytes:
        """Return a request's identity; ``key`` alone if its duplicates are dropped."""
        if not (start or request.dont_filter or self._ours is None):
            return key
        identity = identity_of(request, key, None if parent is None else parent.request)
        # A retry of the parent differs from its children.
        return identity + RETRY if is_retry(request, parent) else identity

    def _is_recognised(
        self, request: Request, parent: Lease | None, identity: bytes
    ) -> bool:
        """Whether a child was accepted before a crash made its parent run again.

        A retry or a redirect of the parent is not a child.
        """
        return (
            parent is not None
            and (request.dont_filter or self._ours is None)
            and self._session.processing.answering is None
            and self._session.children.recognises(parent.name, identity)
        )

    def _within_limits(self, request: Request) -> bool:
        """Whether its slot has room; retries and redirects always pass."""
        session = self._session
        return (
            not session.limits.on
            or session.processing.answering is not None
            or session.limits.room_for(session.engine.slot_of(request))
        )

    def push(
        self,
        request: Request,
        parent: Lease | None,
        identity: bytes,
        keys: list[Key],
        *,
        name: bytes | None = None,
        instead: bool = False,
    ) -> bool:
        """Make a request pending; return whether it is stored and should be marked.

        The ``keys`` mark it; ``identity`` tells it from other requests for its page.
        ``name`` is given if its parent does not name it. ``instead`` says that its
        parent ends in this step and that it takes the parent's place; an answer of the
        downloader always does.
        """
        session = self._session
        session.has_work()
        answering = session.processing.answering is not None
        instead = instead or answering
        not_before = None
        if not ASKING.isdisjoint(request.meta):
            not_before = time_of(request, time.time())
            request = without_time(request)
        # It replaces its parent, which is not visited again itself.
        follows = parent if answering or is_retry(request, parent) else None
        if session.retries is not None:
            request, not_before = session.retries.let_wait(
                request, parent, not_before, answer=answering
            )
        slot = session.engine.slot_of(request)
        start = session.starts_apart and bool(request.meta.get("is_start_request"))
        payload = self._payload_of(request, follows)
        memory = None
        if payload is None:
            memory = self._in_memory(request, parent, follows, identity, keys, name)
            if memory is None:
                return False
        attachment = None if payload else request
        if payload and parent is not None:
            payload = self._with_visit(payload, follows, parent if instead else None)
        entry = session.frontier.push(
            slot,
            request.priority,
            payload,
            start=start,
            attachment=attachment,
            not_before=not_before,
        )
        if not request.dont_filter:
            session.limits.took(slot)
        if memory is not None:
            session.unmarked.update(key for key, _ in keys)
            session.leases.add_in_memory(entry, memory, keys)
        elif (
            session.durable
            and (request.dont_filter or self._ours is None)
            and parent is not None
            and parent.is_named
            and not instead
        ):
            session.children.add(parent.name, identity)
        where = "disk" if session.durable and payload is not None else "memory"
        self._stats.inc_value(f"scheduler/enqueued/{where}")
        self._stats.inc_value("scheduler/enqueued")
        return payload is not None

    def _payload_of(self, request: Request, follows: Lease | None) -> bytes | None:
        """Return the bytes of a request; None if it cannot be stored.

        A stored request is always made anew from its payload, with or without a crash,
        so that it shares no values with other objects.
        """
        session = self._session
        if session.durable:
            return self._dump(request)
        if session.revisits.concerns(request, follows):
            return session.serializer.dump_or_none(request) or b""
        return b""

    def _in_memory(
        self,
        request: Request,
        parent: Lease | None,
        follows: Lease | None,
        identity: bytes,
        keys: list[Key],
        name: bytes | None,
    ) -> InMemory | None:
        """Return the place of a request that cannot be stored; None if it is done.

        In that case an earlier run has done it, and its page runs again.
        """
        session = self._session
        if parent is None:
            return InMemory(name=name)
        if follows is not None:
            # A retry or redirect has the name of the request that it follows.
            return InMemory(root=parent.root, name=parent.name_of(None))
        carried = session.carried_values.of(request)
        if name is None:
            values = b"" if carried is None else carried.digest
            name = parent.name_of(identity + values)
            if name is not None and session.children.recognises(parent.name, name):
                return None
        return InMemory(page=parent.root, name=name, recorded=not keys, carried=carried)

    def _with_visit(
        self, payload: bytes, follows: Lease | None, parent: Lease | None
    ) -> bytes:
        """Return the payload of a request with its visit, and the name that it takes.

        A retry or redirect of ``follows`` inherits its visits. A request that takes the
        place of ``parent`` also takes its name, if outputs of an earlier run are known
        by this name.
        """
        session = self._session
        visit = None if follows is None else session.revisits.follow(follows)
        if parent is not None and session.leases.owes(parent):
            visit = replace(visit or Visit(), name=session.leases.pass_on(parent))
        if visit is None:
            return payload
        return session.serializer.with_visit(payload, visit.values)

    def _is_held(self, request: Request, parent: Lease, key: bytes) -> bool:
        """Whether a request is held back until its parent ends, to take its place.

        A callback may ask for its own page once more, to do the same work. If the page
        was in progress when an earlier run was killed, that request yields the outputs
        that are stored already. Both must not do so at the same time.
        """
        session = self._session
        return (
            request.dont_filter
            and session.processing.answering is None
            and not (parent.holds_back or parent.waiting)
            and session.leases.owes(parent)
            and (
                is_retry(request, parent)
                or is_once_more(request, key, parent.request, self._fingerprint)
            )
            and session.serializer.dump_or_none(request) is not None
        )

    def _dump(self, request: Request) -> bytes | None:
        session = self._session
        if session.cookies is not None:
            request = without_cookie_header(request)
        try:
            return session.serializer.dump(request)
        except UnserializableError:
            self._warn_of_unserializable(request)
            self._stats.inc_value("scheduler/unserializable")
            return None

    def _warn_of_polling(self, request: Request) -> None:
        """Warn once of a skipped request that looks like a polling request."""
        if self._warned_of_polling:
            return
        self._warned_of_polling = True
        logger.warning(
            "start() yields %(request)s again and again, and an earlier run has"
            " scheduled it so often already: this run skips it as often. If start()"
            " polls this page without end, set BLOOMDUPE_START_REQUESTS = 'always':"
            " then each run schedules all that start() yields. The stat"
            " bloomdupe/start_requests_skipped counts the requests that are skipped",
            {"request": request},
            extra={"spider": self._spider},
        )

    def _warn_of_unserializable(self, request: Request) -> None:
        """Warn once of the consequences of a request that cannot be stored."""
        if self._warned:
            return
        self._warned = True
        logger.warning(
            "%(request)s cannot be stored: %(reason)s. Such requests live in memory"
            " only, and the request that yielded one is not done before it is; after a"
            " crash that one is fetched again. No more of them will be logged (see the"
            " stat scheduler/unserializable)",
            {
                "request": request,
                "reason": self._session.serializer.explain(request),
            },
            extra={"spider": self._spider},
        )
