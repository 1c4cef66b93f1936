"""Starting: what ``Spider.start()`` yields, and what of it is done again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy import Request

from bloomdupe.crawl.start_items import StartItems

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bloomdupe.crawl.run import Run
    from bloomdupe.filter.bloom import BloomFilter
    from bloomdupe.inside_scrapy.processing import Processing

__all__ = ["Starting", "Verdict"]

MOST_YIELDED = 100_000
"""Start requests, the first ones, among which one that comes again is noticed."""


class Verdict(NamedTuple):
    """What becomes of a start request."""

    skip: bool
    """It was scheduled before."""
    forced: bool
    """It is scheduled, whether it was seen or not."""
    mark: bytes | None
    """What else to mark: that it was scheduled in this round."""


class Starting:
    """Judges start requests, and skips items of ``start()`` that are through."""

    def __init__(self, run: Run, policy: str, processing: Processing) -> None:
        self._run = run
        self._policy = policy
        self._processing = processing
        self.items = StartItems()
        self._request: Request | None = None
        # What this run has yielded first, and how often again.
        self._yielded: set[bytes] = set()
        self._repeats: Counter[bytes] = Counter()
        self._keys: set[bytes] = set()

    async def watch(self, outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Stand between ``Spider.start()`` and the engine."""
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

    def takes(self, request: Request) -> bool:
        """Whether this object is what ``start()`` has yielded last; asked once."""
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
    ) -> Verdict:
        """Decide on a start request with the fingerprint ``key``.

        That it was scheduled in this round takes a mark of its own, with ``identity``
        (see :func:`bloomdupe.crawl.identity.identity_of`): ``key`` may have been seen
        as a link. In the first round, one that is not ``forced`` needs none, for it is
        dropped if it was seen; unless fingerprints are not ``marked`` as seen.
        """
        run = self._run
        if forced and len(self._keys) < MOST_YIELDED:
            self._keys.add(key)
        again = self._times_before(identity)
        if self._policy == "always" and (run.resumed or run.round > 1):
            return Verdict(False, True, None)
        needs_mark = (forced or not marked) and run.marks_starts
        if run.round == 1 and not again and not needs_mark:
            return Verdict(run.resumed and seen.contains(key), forced, None)
        number = b"%d.%d" % (run.round, again) if again else b"%d" % run.round
        mark = b"start %b %b" % (number, identity)
        scheduled = seen.contains(mark)
        if not again and run.round > 1:
            forced = forced or not scheduled
        return Verdict(run.resumed and scheduled, forced, mark)

    def has_yielded(self, key: bytes) -> bool:
        """Whether a start request with ``dont_filter`` has this fingerprint."""
        return key in self._keys

    def _times_before(self, key: bytes) -> int:
        """Count how often this run has yielded a request before."""
        if key in self._yielded:
            self._repeats[key] += 1
        elif len(self._yielded) < MOST_YIELDED:
            self._yielded.add(key)
        return self._repeats.get(key, 0)
