# mypy: ignore-errors
"""StartOutputs: the pages that ``Spider.start()`` yields, and names of its items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mmh3 import mmh3_x64_128_digest
from scrapy import Request

from bloomdupe.crawl.engines.on_redis.going.canonical import canonical_text
from bloomdupe.crawl.engines.on_redis.going.identity import identity_of
from bloomdupe.crawl.engines.on_redis.going.names import (
    OutputNames,
    child_name,
    start_name,
)
from bloomdupe.crawl.leases.outcomes import Outcome
from bloomdupe.inside_scrapy.work import Work

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.outcomes import Key
    from bloomdupe.inside_scrapy.processing import Processing

MOST_YIELDED = 100_000
"""Number of outputs, counted from the first, among which repetitions are noticed."""
SAFE_METHODS = frozenset({"GET", "HEAD"})


def second_name(key: bytes) -> bytes:
    """Return the name of the second use of a start page with this fingerprint."""
    return b"again " + key


class SharedVerdict(NamedTuple):
    """The decision on a start request."""

    skip: bool
    """It was scheduled before."""
    forced: bool
    """It is scheduled even if it was seen."""
    marks: tuple[Key, ...] = ()
    """Further marks: that it was scheduled in this round."""
    name: bytes | None = None
    """Its name, if it has the same name in each run of this round."""


class SharedStartItem(Work):
    """An item of ``Spider.start()``; no callback and no download belong to it.

    Its pipelines decide when it is done.
    """

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.outcome = Outcome()

    def answered(self, result: object) -> None:
        """Nothing was asked of the downloader."""

    def takes_item(self) -> bool:
        """It yields nothing."""
        return True


class StartOutputs:
    """Recognises the requests of ``start()``, and names its items by their content.

    They have other names in each ``round``. The ``fingerprint`` is that of a request.
    """

    def __init__(
        self,
        processing: Processing,
        round: int,  # noqa: A002
        fingerprint: Callable[[Request], bytes],
    ) -> None:
        self._processing = processing
        self.round = round
        """Number of the round, from 1."""
        self._parent = parent = start_name(round)
        self._fingerprint = fingerprint
        self._pages: set[bytes] = set()
        self.over = False
        """Whether ``start()`` has yielded all its outputs in this run."""
        self._closed = False
        self._names = OutputNames(parent)
        self._items = 0
        self._request: Request | None = None

    async def watch(self, outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass the outputs of ``Spider.start()`` to the engine, and watch them.

        An item that comes when the crawl has closed is left to the next run.
        """
        async for output in outputs:
            self._request = None
            if isinstance(output, Request):
                self._request = output
                self._processing.works_on(None)
            else:
                number = self._items
                self._items += 1
                name = self._name_of(output, number)
                if self._closed or self.is_done(name):
                    continue
                item = SharedStartItem(name)  # type: ignore[abstract] # the rest is empty
                # The engine hands it on in this very task.
                self._processing.works_on(item)
            yield output
        # The engine takes in each request before it asks for the next output.
        self.over = True
        if not self._closed:
            self.ended()

    def close(self) -> None:
        """The crawl has closed: no output counts any more."""
        self._closed = True

    def _name_of(self, item: object, number: int) -> bytes:
        text = canonical_text(item).encode(errors="backslashreplace")
        identity = b"item" + mmh3_x64_128_digest(text)
        if number < MOST_YIELDED:
            return self._names.name_of(identity)
        return child_name(self._parent, identity, number)

    def is_done(self, name: bytes) -> bool:  # noqa: ARG002 - by default
        """Whether an item is in the output."""
        return False

    def ended(self) -> None:
        """``start()`` has yielded all its outputs."""

    def repeats_itself(self, identity: bytes) -> bool:  # noqa: ARG002 - by default
        """Whether ``start()`` yields it several times, and has never ended yet."""
        return False

    def takes(self, request: Request) -> bool:
        """Whether this object is the last output of ``start()``; asked once."""
        if request is not self._request:
            return False
        self._request = None
        return True

    def judge(
        self,
        key: Key,
        identity: bytes,
        *,
        forced: bool,
        marked: bool,  # noqa: ARG002 - by default
    ) -> SharedVerdict:
        """Decide on a start request with this ``key``, and name it.

        ``forced`` says that it is accepted even if it was seen, and ``marked`` that
        accepted requests are marked as seen. In a later round it is accepted once even
        if an earlier round has seen it.
        """
        page, _ = key
        if not forced and self.round == 1:
            return SharedVerdict(False, False, (), page)
        self.add_page(page)
        if not forced:
            return SharedVerdict(False, True, (), child_name(self._parent, identity, 0))
        return SharedVerdict(False, True, (), self._names.name_of(identity))

    # Pages of start requests with dont_filter

    def add_page(self, key: bytes) -> None:
        """Remember the fingerprint of a start request with ``dont_filter``."""
        if len(self._pages) < MOST_YIELDED:
            self._pages.add(key)

    def is_page(self, key: bytes) -> bool:
        """Whether this is the fingerprint of such a request."""
        return key in self._pages

    def may_be_page(self, key: bytes) -> bool:
        """Whether it is, or ``start()`` may still yield such a request.

        Another worker may have yielded it.
        """
        return not self.over or self.is_page(key)

    def second_use(self, request: Request, key: Key, parent: Lease) -> Key | None:
        """Return the mark of a start page's second use, for a different purpose.

        Scrapy's filter does not remember start requests. So a login may lead back to
        the start page, and its callback may request it with a different callback. That
        passes once, by :func:`second_name`. A link back is a duplicate: None.
        """
        page, exact = key
        former = parent.request
        if self._processing.answering is not None:
            second = former.method not in SAFE_METHODS and self.may_be_page(page)
        else:
            # A parent without dont_filter is remembered by Scrapy's filter, too.
            second = (
                former.dont_filter
                and self.is_page(page)
                and page == self._fingerprint(former)
                and identity_of(request, page, parent.middleware_values)
                not in (page, identity_of(former, page, parent.middleware_values))
            )
        return (second_name(page), exact) if second else None
