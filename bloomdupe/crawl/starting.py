"""Starting: the output of ``Spider.start()``, and which of it is done again."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mmh3 import mmh3_x64_128_digest
from scrapy import Request, Spider
from scrapy.utils.python import global_object_name

from bloomdupe.crawl.retries import without_time
from bloomdupe.errors import UnserializableError
from bloomdupe.inside_scrapy.processing import CURRENT, PAUSE
from bloomdupe.requests.callbacks import name_of_method
from bloomdupe.requests.values import pack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.in_flight.outcomes import Key
    from bloomdupe.crawl.progress.rounds import Run

SAFE = frozenset({"GET", "HEAD"})
"""Methods of requests that are no forms."""
MOST_COUNTED = 200_000
"""Number of keys, counted from the first, of which repetitions are noticed; a request
of ``start()`` has two."""


class StartVerdict(NamedTuple):
    """The decision on a start request."""

    skip: bool
    """It was scheduled before."""
    forced: bool
    """It is scheduled even if it was seen."""
    keys: Sequence[Key] = ()
    """Further keys: that it was scheduled in this round."""


class Starting:
    """Decides on start requests, and skips items of ``start()`` that are done.

    Each round has keys of its own.
    """

    def __init__(self, session: Session, run: Run) -> None:
        policy = session.settings.start_requests
        self._session = session
        self._run = run
        self._always = policy == "always" and (run.resumed or run.round > 1)
        self._registry = session.registry
        self._serializer = session.serializer
        self._access = session.access
        self.ended = False
        """Whether ``start()`` has yielded all its outputs, as far as is known."""
        self._watching = True
        """Whether outputs come, or will: the first ones when the crawl has opened."""
        self._is_stale = False
        """Whether the outputs so far were dropped with all that is in memory."""
        self._request: Request | None = None
        self.repeats_itself = False
        """Whether ``start()`` has yielded the last request before, and never ended."""
        self._counts: dict[bytes, int] = {}
        """How often outputs have come, by their keys without the number."""

    async def watch(
        self, outputs: AsyncIterator[Any] | None = None
    ) -> AsyncIterator[Any]:
        """Pass the outputs of ``Spider.start()`` to the engine, and watch them.

        An item that comes when the crawl has closed is left to the next run. When what
        is in memory was dropped, ``start()`` runs anew, as after a kill.
        """
        self._watching = True
        try:
            while await self._session.engine.may_start():
                if outputs is None:
                    outputs = await self._access.start_again()
                self._is_stale = False
                self._counts.clear()
                async for output in outputs:
                    self._begins()
                    if self._is_stale:
                        break
                    if self._watches(output):
                        yield output
                    # Not before: start() may have changed an attribute for the output.
                    while self._session.engine.holds and not self._is_stale:
                        await asyncio.sleep(PAUSE)
                self._begins()
                self.ended = not self._is_stale
                # The engine takes in each request before it asks for the next output.
                if self.ended and not self._session.closed:
                    self._run.start_ended()
                    self._session.engine.failures.start_ended()
                outputs = None
        finally:
            self._watching = False

    def _begins(self) -> None:
        """Note that there is an output, or the end; unless it is of an earlier call."""
        if not self._is_stale:
            self._session.engine.start_began()

    def _watches(self, output: object) -> bool:
        """Note an output that the engine takes in now; False if it is done."""
        self._request = None
        if isinstance(output, Request):
            self._request = output
            CURRENT.set(None)
            return True
        key = self._key_of(output)
        if self._session.closed or self._is_done(key):
            return False
        # The engine hands it on in this very task.
        CURRENT.set(self._registry.add_start_item(key))
        return True

    def drop(self) -> None:
        """Take no more outputs: what is in memory is out of date."""
        self._is_stale = True

    def restart(self) -> None:
        """Run ``start()`` anew, as after a kill: some of it may be durable nowhere."""
        self.drop()
        self.ended = False
        leads = self._session.engine.frontier.leads
        if leads and not (self._watching or self._session.closed):
            self._access.go_through(self.watch())

    @property
    def over(self) -> bool:
        """Whether this run waits for no more outputs of ``start()``."""
        return self.ended or not self._session.engine.frontier.leads

    def _knows(self, key: bytes, *, exact: bool, of: Request | None = None) -> bool:
        return self._session.engine.knows(key, exact=exact, of=of)

    # Items

    def _key_of(self, item: object) -> bytes:
        """Return the key of an item: its digest and its number among equal ones."""
        try:
            content = pack(item)
        except UnserializableError:
            content = global_object_name(type(item)).encode()
        return self._counted(b"item", mmh3_x64_128_digest(content))[0]

    def _is_done(self, key: bytes) -> bool:
        known = self._run.resumed and not self._always
        return known and self._knows(key, exact=True)

    # Requests

    def takes(self, request: Request) -> bool:
        """Whether this object is the last output of ``start()``; asked once."""
        if request is not self._request:
            return False
        self._request = None
        return True

    def judge(
        self, request: Request, key: Key, *, forced: bool, marked: bool
    ) -> StartVerdict:
        """Decide on a start request with this ``key``.

        ``forced`` says that it is accepted even if it was seen, and ``marked`` that
        accepted requests are marked as seen. A request that is not forced needs no more
        than that in the first round: it is dropped if it was seen. In a later round it
        is accepted once even if an earlier round has seen it.

        Any other gets keys of this round, because ``key`` may have been seen as a link:

        ``start``  that it was scheduled, with its payload
        ``place``  the same, with its place among the requests for its page
        ``use``    that its page is fetched for its callback

        The time of a delayed request does not count. Some requests differ in each run,
        such as with the time of day in an argument. They are known by their places.
        This works only once ``start()`` has ended, because until then they may come in
        any order.
        """
        run, (page, exact) = self._run, key
        if marked and not forced and run.round == 1:
            known = run.resumed and self._knows(page, exact=exact)
            return StartVerdict(known and not self._always, self._always)
        identity = page
        if forced:
            payload = self._serializer.dump_or_none(without_time(request)) or b""
            identity += mmh3_x64_128_digest(payload)
        start, again = self._counted(b"start", identity)
        place, _ = self._counted(b"place", page)
        use = self._use_of(request, page)
        keys = [(one, exact) for one in (start, place, use)]
        self.repeats_itself = again and not run.started
        if self._always:
            return StartVerdict(False, True, keys)
        scheduled = self._knows(start, exact=exact) or (
            run.started and self._knows(place, exact=exact)
        )
        if run.round > 1:
            forced = forced or not (again or scheduled)
        elif not (run.marks_starts or again):
            scheduled = self._knows(page, exact=exact)
        return StartVerdict(run.resumed and scheduled, forced, keys)

    def _counted(self, kind: bytes, content: bytes) -> tuple[bytes, bool]:
        """Count an output; return its key, and whether an equal one came before.

        The key has the round, and the number of earlier equal ones if there are any.
        """
        counts, output = self._counts, kind + content
        number, before = b"%d" % self._run.round, counts.get(output, 0)
        if before or len(counts) < MOST_COUNTED:
            counts[output] = before + 1
        if before:
            number += b".%d" % before
        return b"%b %b %b" % (kind, number, content), before > 0

    @property
    def begins_anew(self) -> bool:
        """Whether ``start()`` yields again what an earlier round or run has done."""
        return self._always or (self._run.round > 1 and not self._run.started)

    def of_round(self, fingerprint: bytes, method: str) -> bytes:
        """Return the key of a request: each round sends a form, a login say, anew."""
        if self.has_rounds(method):
            return b"round %d %b" % (self._run.round, fingerprint)
        return fingerprint

    def has_rounds(self, method: str) -> bool:
        """Whether a request has another key than in the first round."""
        return self._run.round > 1 and method not in SAFE

    # Pages of start requests with dont_filter

    def place_of(self, page: bytes) -> bytes:
        """Return the key of the first start request for a page in this round."""
        return b"place %d %b" % (self._run.round, page)

    def is_page(self, key: Key, of: Request) -> bool:
        """Whether a start request with ``dont_filter`` has this ``key`` of a request.

        Of a page that another program has fetched, before it was imported, nothing
        tells for which callback.
        """
        page, exact = key
        return self._knows(self.place_of(page), exact=exact, of=of)

    def _use_of(self, request: Request, page: bytes) -> bytes:
        """Return the key of a page that is fetched for the callback of a request."""
        name = name_of(request.callback).encode(errors="backslashreplace")
        return b"use %d %b %b" % (self._run.round, page, name)

    def second_use(self, request: Request, key: Key, *, form: bool) -> Key | None:
        """Return the key of a start page's second use, for a different purpose.

        Scrapy's filter does not remember start requests. So a page may lead back to the
        start page, with a different callback. That passes once, and so does a request
        with cookies, or after a ``form``, such as a login. Another link back is a
        duplicate, and for that None is returned.
        """
        page, exact = key
        if not self.is_page(key, request):
            return None
        use = self._use_of(request, page)
        again = b"again %d %b" % (self._run.round, page)
        if not (form or request.cookies) and self._knows(use, exact=exact, of=request):
            return None
        known = self._knows(again, exact=exact, of=request)
        return None if known else (again, exact)


def name_of(callback: Any) -> str:
    """Return a name that distinguishes a callback from others of the project."""
    while type(callback) is partial:
        callback = callback.func
    if callback is None:
        return "parse"
    owner = getattr(callback, "__self__", None)
    plain = getattr(callback, "__func__", callback)
    if isinstance(owner, Spider):
        return name_of_method(owner, plain) or str(plain.__qualname__)
    return f"{plain.__module__} {getattr(plain, '__qualname__', type(plain))}"
