"""Acceptance: whether a request is taken in, and in what form it waits."""

from __future__ import annotations

import time
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from bloomdupe.crawl.later.not_before import TIME_KEYS, time_of, without_time
from bloomdupe.crawl.later.retries import is_retry
from bloomdupe.crawl.later.revisits import REVISIT
from bloomdupe.crawl.requests.cookies_packed import without_cookie_header
from bloomdupe.crawl.requests.identity import identity_of
from bloomdupe.crawl.requests.visits import Visit
from bloomdupe.errors import StoreError, UnserializableError
from bloomdupe.links.link_filter import Drop
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.dupefilters import BaseDupeFilter

    from bloomdupe.crawl.dupefilter import BloomDupeFilter
    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.leases.leases import Key, Lease

__all__ = ["ASKING", "Acceptance"]

logger = logger_of(__name__)

ASKING = frozenset({*TIME_KEYS, REVISIT})
"""Keys of ``meta`` by which a request asks for something of the scheduler."""
AGAIN = b"again "
"""Before a fingerprint: marks that a start page was taken in for a second use."""
RETRY = b" retry"
"""Behind the identity of a request that is a retry of its parent."""
SAFE_METHODS = frozenset({"GET", "HEAD"})


class Acceptance:
    """Judges requests for an open crawl, and lets those wait that it accepts.

    ``ours`` is the filter that marks them together with the frontier; without it,
    ``dupefilter`` is somebody else's.
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
        """Take in a request and mark it; False if it was dropped."""
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
        # Somebody else's filter does not mark in the store.
        keys = [(key, exact)] if ours is not None else []
        if start:
            skip, forced, marks = session.starting.judge(
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
            keys += marks
            if forced and not request.dont_filter:
                # So that what it redirects to is followed, which was seen, too.
                request = copy(request)  # replace() would run its constructor
                request.dont_filter = True
        if not forced and not self._passes(request, parent, keys):
            return False
        if self.push(request, parent, key, identity, keys):
            for each, exactly in keys:
                session.frontier.seen.add(each, exact=exactly)
        return True

    def _passes(self, request: Request, parent: Lease | None, keys: list[Key]) -> bool:
        """Whether a request is no duplicate; add to ``keys`` what else is to be marked.

        The first of them is its fingerprint, if our filter is asked.
        """
        if self._ours is None:
            return self._passes_other(request)
        return self._passes_ours(self._ours, request, parent, keys)

    def _passes_other(self, request: Request) -> bool:
        """Ask somebody else's filter, which marks when it is asked."""
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
            if key in session.unmarked or not self._is_second_use(
                request, parent, key, exact=exact
            ):
                ours.log(request, self._spider)
                return False
            keys.append((AGAIN + key, exact and session.run.marks_exactly))
        return self._within_limits(request)

    def _is_second_use(
        self, request: Request, parent: Lease | None, key: bytes, *, exact: bool
    ) -> bool:
        """Whether a start page is asked for once more, for something else.

        Scrapy's filter does not remember start requests. So the page to which a login
        leads may be the start page, and its callback may ask for it with another one.
        That passes once. A link back is a duplicate.
        """
        session = self._session
        if parent is None or not session.starting.has_yielded(key):
            return False
        if session.processing.answering is not None:
            again = parent.request.method not in SAFE_METHODS
        else:
            origin = parent.request
            again = key == self._fingerprint(origin) and identity_of(
                request, key, origin
            ) not in (key, identity_of(origin, key, origin))
        exact = exact and session.run.marks_exactly
        return again and not session.frontier.seen.contains(AGAIN + key, exact=exact)

    def would_drop(self, request: Request) -> Drop:
        """Whether a request would be dropped as a duplicate; for the link filter."""
        if self._ours is None:
            return Drop.NO
        key, exact = self._ours.key_of(request)
        if key in self._session.unmarked:
            return Drop.ALL
        session = self._session
        try:
            if not session.frontier.seen.contains(key, exact=exact):
                return Drop.NO
            if not session.starting.has_yielded(key):
                return Drop.ALL
            second = self._is_second_use(request, session.parent(), key, exact=exact)
        except StoreError:
            return Drop.NO  # it will fail again when the request is scheduled
        return Drop.NO if second else Drop.THIS

    def _is_forced(self, request: Request, parent: Lease | None) -> bool:
        """Whether a request is taken in, be it seen or not."""
        if request.dont_filter or self._session.processing.answering is None:
            return request.dont_filter
        # What a page that comes again is redirected to was seen the last time.
        visit = None if parent is None else parent.visit
        return visit is not None and visit.visits > 0

    def _identity(
        self, request: Request, parent: Lease | None, key: bytes, *, start: bool
    ) -> bytes:
        """Return what tells a request from others for its page, if there may be any."""
        if not (start or request.dont_filter or self._ours is None):
            return key
        identity = identity_of(request, key, None if parent is None else parent.request)
        # A page that is tried once more is none of those that it has yielded.
        return identity + RETRY if is_retry(request, parent) else identity

    def _is_recognised(
        self, request: Request, parent: Lease | None, identity: bytes
    ) -> bool:
        """Whether a child was taken in before the crash after which its parent runs.

        A retry or a redirect of the parent is no child of it.
        """
        return (
            parent is not None
            and (request.dont_filter or self._ours is None)
            and self._session.processing.answering is None
            and self._session.children.recognises(parent.root, identity)
        )

    def _within_limits(self, request: Request) -> bool:
        """Whether its slot may have another one; what was taken in is followed."""
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
        key: bytes,
        identity: bytes,
        keys: list[Key],
    ) -> bool:
        """Let a request wait; whether it will be stored, and should be marked.

        ``key`` is its fingerprint, and ``keys`` mark it; ``identity`` tells it from
        others for its page.
        """
        session = self._session
        session.has_work()
        answering = session.processing.answering is not None
        not_before = None
        if not ASKING.isdisjoint(request.meta):
            not_before = time_of(request, time.time())
            request = without_time(request)
        # It stands for its parent from now on, which is not visited again itself.
        follows = parent if answering or is_retry(request, parent) else None
        if session.retries is not None:
            request, not_before = session.retries.let_wait(
                request, parent, not_before, answer=answering
            )
        slot = session.engine.slot_of(request)
        start = session.starts_apart and bool(request.meta.get("is_start_request"))
        # What is stored is made anew from its payload when its turn comes, so that
        # nobody shares its values, whether the process has been killed or not.
        payload: bytes | None = b""
        if session.durable:
            payload = self._dump(request)
        elif session.revisits.concerns(request, follows):
            payload = session.serializer.dump_or_none(request) or b""
        attachment = None if payload else request
        if payload and parent is not None:
            payload = self._with_inheritance(payload, key, parent, follows)
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
        if payload is None:
            if self._ours is not None:
                session.unmarked.add(key)
            session.leases.add_part(entry, parent, keys)
        elif (
            session.durable
            and (request.dont_filter or self._ours is None)
            and parent is not None
            and session.processing.answering is None
        ):
            session.children.add(parent.root, identity)
        where = "disk" if session.durable and payload is not None else "memory"
        self._stats.inc_value(f"scheduler/enqueued/{where}")
        self._stats.inc_value("scheduler/enqueued")
        return payload is not None

    def _with_inheritance(
        self, payload: bytes, key: bytes, parent: Lease, follows: Lease | None
    ) -> bytes:
        """Return the payload of a request with what it takes over from its parent.

        From one that it ``follows``, that is when its page comes again. From one whose
        page it asks for once more, that is what a run that was killed has left.
        """
        session = self._session
        visit = None if follows is None else session.revisits.follow(follows)
        if session.leases.owes(parent) and (
            follows is not None or key == self._fingerprint(parent.request)
        ):
            heritage = session.leases.bequeath(parent)
            visit = replace(visit or Visit(), stands_for=heritage)
        if visit is None:
            return payload
        return session.serializer.with_visit(payload, visit.values)

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
        """Say once that a request is skipped that looks like one of a poller."""
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
        """Say once what it costs that a request cannot be stored."""
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
