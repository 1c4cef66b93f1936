# mypy: ignore-errors
"""Acceptance: whether a request is accepted, and in which form it is stored."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from bloomdupe.crawl.acceptance import Acceptance, check_asked, was_visited
from bloomdupe.crawl.engines.on_redis.going.identity import identity_of, is_once_more
from bloomdupe.crawl.engines.on_redis.going.shared_offer import SharedOffer as Accepted
from bloomdupe.crawl.later.retries import is_retry
from bloomdupe.errors import StoreError
from bloomdupe.links.link_filter import Duplicate
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from scrapy import Request

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.outcomes import Key

logger = logger_of(__name__)

RETRY = b" retry"
"""Suffix of the identity of a request that is a retry of its parent."""


class SharedAcceptance(Acceptance):
    """Decides on requests for an open crawl, and hands accepted requests to its engine.

    ``ours`` is the filter that the engine marks them in; without it, ``dupefilter`` is
    a foreign filter.
    """

    def takes(self, request: Request) -> bool:
        """Accept a request; False if it was dropped. See :meth:`Acceptance.takes`."""
        check_asked(request)
        session, engine, ours = self._session, self._engine, self._ours
        parent = session.parent()
        answers = session.processing.answering is not None
        start = engine.starting.takes(request)
        key, is_new = self._key_of(request)
        forced = request.dont_filter or (answers and was_visited(parent))
        identity = key[0]
        if start or request.dont_filter or ours is None:
            identity = self._identity(request, parent, key[0])
            # A retry or a redirect of the parent is not a child.
            if parent and not answers and engine.recognises(parent, identity):
                return True  # it was accepted before a crash
        # Scrapy's filter does not see a request with dont_filter, so a link to its page
        # is new; and a foreign filter does not mark in the store.
        marks = ours is not None and (start or not request.dont_filter)
        keys = [key] if marks else []
        name = None
        if start:
            skip, forced, further, name = engine.starting.judge(
                key, identity, forced=forced, marked=ours is not None
            )
            if skip:
                self._stats.inc_value("bloomdupe/start_requests_skipped")
                if engine.starting.repeats_itself(identity):
                    self._warn_of_polling(request)
                return False
            keys += further
            if forced and not request.dont_filter:
                # So that its redirect is followed, although that was seen, too.
                request = copy(request)  # replace() would run its constructor
                request.dont_filter = True
        if not forced and not self._passes(
            request, parent, keys, is_new=is_new, answers=answers
        ):
            return False
        name = keys[-1][0] if keys and not (start or forced) else name
        offer = self._offer(
            request, parent, identity, keys, name, start=start, answers=answers
        )
        if parent and request.dont_filter and self._is_held(offer, parent, key[0]):
            engine.hold(offer)
            parent.may_wait()
            return True
        if engine.take(offer):
            return True
        self._dupefilter.log(request, self._spider)
        return False

    def _passes(
        self,
        request: Request,
        parent: Lease | None,
        keys: list[Key],
        *,
        is_new: bool,
        answers: bool,
    ) -> bool:
        """Whether a request is no duplicate, and its slot has room for it.

        There is always room for retries and redirects. If our filter is used, the first
        of the ``keys`` is the request's own, and a second key may be added.
        """
        if self._ours is None:
            return self._passes_theirs(request, answers=answers)
        mark = self._second_use(request, parent, keys[0], answers=answers)
        if mark is not None:
            keys.append(mark)
        key, exact = mark or keys[0]
        if (mark is not None or not is_new) and self._engine.knows(key, exact=exact):
            self._ours.log(request, self._spider)
            return False
        return answers or self._engine.has_room(request)

    def _second_use(
        self, request: Request, parent: Lease | None, key: Key, *, answers: bool
    ) -> Key | None:
        """Return the mark of a start page's second use, if it is that."""
        if parent is None or not (answers or parent.request.dont_filter):
            return None
        return self._engine.starting.second_use(request, key, parent)

    def would_drop(self, request: Request) -> Duplicate:
        """Whether a request would be dropped as a duplicate; for the link filter."""
        if self._ours is None:
            return Duplicate.NO
        engine = self._engine
        key, exact = self._ours.key_of(request)
        try:
            if not engine.knows(key, exact=exact):
                self._asked = request, (key, exact)
                return Duplicate.NO
            if not engine.starting.may_be_page(key):
                return Duplicate.ALL
            parent = self._session.parent()
            mark = self._second_use(request, parent, (key, exact), answers=False)
            if mark is None or engine.knows(mark[0], exact=mark[1]):
                return Duplicate.THIS
        except StoreError:
            pass  # it will fail again when the request is scheduled
        return Duplicate.NO

    def _identity(self, request: Request, parent: Lease | None, key: bytes) -> bytes:
        """Return the identity of a request of which some duplicates are accepted."""
        values = None if parent is None else parent.middleware_values
        identity = identity_of(request, key, values)
        # A retry of the parent differs from its children.
        return identity + RETRY if is_retry(request, parent) else identity

    def _offer(
        self,
        request: Request,
        parent: Lease | None,
        identity: bytes,
        keys: list[Key],
        name: bytes | None,
        *,
        start: bool,
        answers: bool,
    ) -> Accepted:
        """Return a request as the engine gets it."""
        request, payload, slot, repeats, not_before = self._prepared(
            request, parent, answers=answers
        )
        return Accepted(
            request,
            payload,
            slot,
            parent,
            identity,
            keys,
            name,
            start,
            answers,
            repeats,
            not_before,
        )

    def _is_held(self, offer: Accepted, parent: Lease, key: bytes) -> bool:
        """Whether a request is held back until its parent ends, to take its place.

        It has ``dont_filter``.

        A callback may ask for its own page once more, to do the same work. Both must
        not be pending at the same time: if the process is killed then, the page may
        answer well in the next run, and both would yield the same outputs.
        """
        request = offer.request
        return (
            parent.root.instead is None
            and offer.payload is not None
            and self._engine.may_replace(parent, answers=offer.answers)
            and (
                offer.repeats
                or is_once_more(request, key, parent.request, self._fingerprint)
            )
        )
