"""Starting: the output of ``Spider.start()``, and which of it is done again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from bloomdupe.crawl.requests.names import child_name
from bloomdupe.crawl.start_outputs import MOST_YIELDED, StartOutputs, StartVerdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from bloomdupe.crawl.leases.lease import Key
    from bloomdupe.crawl.progress.rounds import Run
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.inside_scrapy.processing import Processing


FIRST = (b"start", b"place")
"""Words of the marks for the first request for a page in a round."""


class Starting(StartOutputs):
    """Decides on start requests, and skips items of ``start()`` that are done."""

    def __init__(
        self,
        run: Run,
        policy: str,
        processing: Processing,
        seen: BloomFilter,
        fingerprint: Callable[[Request], bytes],
    ) -> None:
        super().__init__(processing, run.round, fingerprint)
        self._run = run
        self._always = policy == "always" and (run.resumed or run.round > 1)
        self._names_requests = policy != "always"
        self._seen = seen
        # Output of this run.
        self._yielded = _Occurrences()
        self._places = _Occurrences()

    def is_done(self, name: bytes) -> bool:
        """See :meth:`StartOutputs.is_done`."""
        if self._always or not self._run.resumed:
            return False
        return self._seen.contains(name, exact=True)

    def ended(self) -> None:
        """See :meth:`StartOutputs.ended`."""
        self._run.start_ended()

    def judge(
        self, key: Key, identity: bytes, *, forced: bool, marked: bool
    ) -> StartVerdict:
        """See :meth:`StartOutputs.judge`.

        A request that was scheduled in this round gets a mark of its own, made with
        ``identity`` (see :mod:`bloomdupe.crawl.requests.identity`), because ``key`` may
        have been seen as a link. In the first round, a request that is not ``forced``
        needs no such mark, because it is dropped if it was seen; unless fingerprints
        are not ``marked`` as seen.

        Some requests differ in each run, such as with the time of day in an argument.
        They are known by their place among the requests for their page. This works only
        once ``start()`` has ended, because until then they may come in any order.
        """
        run, seen = self._run, self._seen
        page, exact = key
        if forced:
            self.add_page(page)
        before = self._yielded.before(identity)
        again = before or 0
        place = self._places.before(page)
        if self._always:
            return StartVerdict(False, True)
        name = None
        if self._names_requests and before is not None:
            name = child_name(self._parent, identity, again) if forced else page
        needs_mark = (forced or not marked) and run.marks_starts
        # Of a crawl that workers have shared, and that was imported.
        shared = run.resumed and seen.contains(
            child_name(self._parent, identity, again), exact=exact
        )
        if run.round == 1 and not again and not needs_mark:
            known = run.resumed and seen.contains(page, exact=exact)
            return StartVerdict(shared or known, forced, (), name)
        mark = b"start %b %b" % (self._number(again), identity)
        scheduled = seen.contains(mark, exact=exact) or shared
        marks = [mark]
        if place is not None:
            # A plain request for the page is known by its mark, without a place.
            plain = b"start %b %b" % (self._number(place), page)
            placed = b"place %b %b" % (self._number(place), page)
            if mark != plain:
                marks.append(placed)
            if not scheduled and run.started:
                scheduled = any(
                    seen.contains(each, exact=exact) for each in (plain, placed)
                )
        if not again and run.round > 1:
            forced = forced or not scheduled
        keys = tuple((mark, exact) for mark in marks)
        return StartVerdict(run.resumed and scheduled, forced, keys, name)

    def _number(self, before: int) -> bytes:
        """Return the round, and the number of earlier occurrences if there are any."""
        number = self._run.round
        return b"%d.%d" % (number, before) if before else b"%d" % number

    def repeats_itself(self, identity: bytes) -> bool:
        """See :meth:`StartOutputs.repeats_itself`."""
        return not self._run.started and self._yielded.times(identity) > 1

    def is_page(self, key: bytes) -> bool:
        """Whether a start request of this round has the fingerprint ``key``.

        An earlier run may have made it, and this run may not have yielded it yet.
        """
        if key in self._pages or not self._run.resumed:
            return key in self._pages
        marks = (b"%b %d %b" % (kind, self._run.round, key) for kind in FIRST)
        return any(map(self._seen.contains, marks))

    may_be_page = is_page
    """See :meth:`StartOutputs.may_be_page`: earlier runs have left marks."""


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
