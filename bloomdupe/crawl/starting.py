"""Starting: the output of ``Spider.start()``, and which of it is done again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request

from bloomdupe.crawl.requests.names import START, child_name
from bloomdupe.crawl.state.start_items import StartItems

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bloomdupe.crawl.leases.lease import Key
    from bloomdupe.crawl.progress.rounds import Run
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.inside_scrapy.processing import Processing

__all__ = ["StartVerdict", "Starting"]

MOST_YIELDED = 100_000
"""Number of start requests, counted from the first, among which repetitions are noticed
and known by their place.
"""


class StartVerdict(NamedTuple):
    """The decision on a start request."""

    skip: bool
    """It was scheduled before."""
    forced: bool
    """It is scheduled even if it was seen."""
    marks: tuple[Key, ...] = ()
    """Further marks: that it was scheduled in this round."""


class Starting:
    """Decides on start requests, and skips items of ``start()`` that are done."""

    def __init__(self, run: Run, policy: str, processing: Processing) -> None:
        self._run = run
        self._policy = policy
        self._processing = processing
        self.items = StartItems()
        self._request: Request | None = None
        # Output of this run.
        self._requests = _Occurrences()
        self._pages = _Occurrences()
        self._keys: set[bytes] = set()

    async def watch(self, outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass the outputs of ``Spider.start()`` to the engine, and watch them."""
        async for output in outputs:
            self._request = None
            if isinstance(output, Request):
                self._request = output
                self._processing.works_on(None)
            else:
                item = self.items.next()
                if item is None:
                    continue
                # The engine hands it on in this very task.
                self._processing.works_on(item)
            yield output
        # The engine takes in each request before it asks for the next output.
        self._run.start_ended()

    def takes(self, request: Request) -> bool:
        """Whether this object is the last output of ``start()``; asked once."""
        if request is not self._request:
            return False
        self._request = None
        return True

    def judge(
        self,
        seen: BloomFilter,
        key: bytes,
        identity: bytes,
        *,
        forced: bool,
        marked: bool = True,
        exact: bool = False,
    ) -> StartVerdict:
        """Decide on a start request with the fingerprint ``key``.

        ``exact`` says that the fingerprint is kept exactly, see
        :meth:`bloomdupe.filter.bloom.BloomFilter.add`.

        A request that was scheduled in this round gets a mark of its own, made with
        ``identity`` (see :mod:`bloomdupe.crawl.requests.identity`), because ``key`` may
        have been seen as a link. In the first round, a request that is not ``forced``
        needs no such mark, because it is dropped if it was seen; unless fingerprints
        are not ``marked`` as seen.

        Some requests differ in each run, such as with the time of day in an argument.
        They are known by their place among the requests for their page. This works only
        once ``start()`` has ended, because until then they may come in any order.
        """
        run = self._run
        if forced and len(self._keys) < MOST_YIELDED:
            self._keys.add(key)
        again = self._requests.before(identity) or 0
        place = self._pages.before(key)
        if self._policy == "always" and (run.resumed or run.round > 1):
            return StartVerdict(False, True)
        needs_mark = (forced or not marked) and run.marks_starts
        exactly = exact and run.marks_exactly
        # Of a crawl that workers have shared, and that was imported: never exact.
        shared = (
            run.resumed
            and not exactly
            and seen.contains(child_name(START, identity, again))
        )
        if run.round == 1 and not again and not needs_mark:
            known = run.resumed and seen.contains(key, exact=exact)
            return StartVerdict(shared or known, forced)
        mark = b"start %b %b" % (self._number(again), identity)
        scheduled = seen.contains(mark, exact=exactly) or (shared and run.round == 1)
        marks = [mark]
        if place is not None:
            # A plain request for the page is known by its mark, without a place.
            plain = b"start %b %b" % (self._number(place), key)
            placed = b"place %b %b" % (self._number(place), key)
            if mark != plain:
                marks.append(placed)
            if not scheduled and run.started:
                scheduled = any(
                    seen.contains(each, exact=exactly) for each in (plain, placed)
                )
        if not again and run.round > 1:
            forced = forced or not scheduled
        keys = tuple((mark, exactly) for mark in marks)
        return StartVerdict(run.resumed and scheduled, forced, keys)

    def _number(self, before: int) -> bytes:
        """Return the round, and the number of earlier occurrences if there are any."""
        number = self._run.round
        return b"%d.%d" % (number, before) if before else b"%d" % number

    def repeats_itself(self, identity: bytes) -> bool:
        """Whether ``start()`` yields it several times, and has never ended yet."""
        return not self._run.started and self._requests.times(identity) > 1

    def has_yielded(self, key: bytes) -> bool:
        """Whether a start request with ``dont_filter`` has this fingerprint."""
        return key in self._keys


class _Occurrences:
    """Counts how often a key has come before, for the first ``MOST_YIELDED`` keys."""

    def __init__(self) -> None:
        self._once: set[bytes] = set()
        self._again: Counter[bytes] = Counter()

    def times(self, key: bytes) -> int:
        """Return how often a key came, as far as it was counted."""
        return (key in self._once) + self._again.get(key, 0)

    def before(self, key: bytes) -> int | None:
        """Count a key, and return how often it came before; None if unknown."""
        if key in self._once:
            self._again[key] += 1
        elif len(self._once) < MOST_YIELDED:
            self._once.add(key)
        else:
            return None
        return self._again.get(key, 0)
