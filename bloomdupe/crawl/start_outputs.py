"""StartOutputs: the pages that ``Spider.start()`` yields, and names of its items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmh3 import mmh3_x64_128_digest
from scrapy import Request

from bloomdupe.crawl.leases.outcomes import Outcome
from bloomdupe.crawl.requests.canonical import canonical_text
from bloomdupe.crawl.requests.identity import identity_of
from bloomdupe.crawl.requests.names import OutputNames, child_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bloomdupe.inside_scrapy.processing import Processing

__all__ = ["MOST_YIELDED", "StartItem", "StartOutputs", "is_fresh_start", "second_name"]

MOST_YIELDED = 100_000
"""Number of outputs, counted from the first, among which repetitions are noticed."""
SAFE_METHODS = frozenset({"GET", "HEAD"})


def second_name(key: bytes) -> bytes:
    """Return the name of the second use of a start page with this fingerprint."""
    return b"again " + key


def is_fresh_start(request: Request) -> bool:
    """Whether Spider.start() has just yielded the request.

    Retries and redirects of start requests inherit ``is_start_request``.
    """
    meta = request.meta
    return bool(meta.get("is_start_request")) and not (
        meta.keys() & {"retry_times", "redirect_times", "download_latency"}
    )


class StartItem:
    """An item of ``Spider.start()``: a :class:`bloomdupe.inside_scrapy.Work`."""

    holds_back = waiting = False

    def __init__(self, name: bytes, number: int) -> None:
        self.name = name
        self.number = number
        """Number of the items before it."""
        self.outcome = Outcome()

    def answered(self, result: object) -> bool:  # noqa: ARG002 - there is none
        """Nothing was asked of the downloader."""
        return True

    def given(self, result: object) -> None:
        """No callback belongs to it."""

    def takes_item(self) -> bool:
        """It yields nothing."""
        return True

    def waits(self) -> None:
        """No callback belongs to it."""

    def cut_short(self) -> None:
        """No callback belongs to it."""

    def gave_up(self, error: BaseException) -> None:
        """No download belongs to it."""

    def raised(self, error: BaseException, response: object) -> None:
        """No callback belongs to it."""

    def broke_off(self, error: BaseException) -> None:
        """See :class:`bloomdupe.inside_scrapy.processing.Work`; never called."""

    def ended(self, *, whole: bool) -> None:
        """Do nothing: its pipelines decide when it is done."""


class StartOutputs:
    """Recognises the requests of ``start()``, and names its items by their content.

    ``parent`` is the name of ``start()``, and ``fingerprint`` that of a request.
    """

    def __init__(
        self,
        processing: Processing,
        parent: bytes,
        fingerprint: Callable[[Request], bytes],
    ) -> None:
        self._processing = processing
        self._parent = parent
        self._fingerprint = fingerprint
        self._pages: set[bytes] = set()
        self._over = False
        self._names = OutputNames(parent)
        self._items = 0
        self._request: Request | None = None

    async def watch(self, outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pass the outputs of ``Spider.start()`` to the engine, and watch them."""
        async for output in outputs:
            self._request = None
            if isinstance(output, Request):
                self._request = output
                self._processing.works_on(None)
            else:
                number = self._items
                self._items += 1
                name = self._name_of(output, number)
                if self.is_done(name, number):
                    continue
                # The engine hands it on in this very task.
                self._processing.works_on(StartItem(name, number))
            yield output
        # The engine takes in each request before it asks for the next output.
        self._over = True
        self.ended()

    def _name_of(self, item: object, number: int) -> bytes:
        text = canonical_text(item).encode(errors="backslashreplace")
        identity = b"item" + mmh3_x64_128_digest(text)
        if number < MOST_YIELDED:
            return self._names.name_of(identity)
        return child_name(self._parent, identity, number)

    def is_done(self, name: bytes, number: int) -> bool:  # noqa: ARG002 - by default
        """Whether an item is in the output; ``number`` counts the items before it."""
        return False

    def ended(self) -> None:
        """``start()`` has yielded all its outputs."""

    def takes(self, request: Request) -> bool:
        """Whether this object is the last output of ``start()``; asked once."""
        if request is not self._request:
            return False
        self._request = None
        return True

    # Pages of start requests with dont_filter

    def add_page(self, key: bytes) -> None:
        """Remember the fingerprint of a start request with ``dont_filter``."""
        if len(self._pages) < MOST_YIELDED:
            self._pages.add(key)

    def is_page(self, key: bytes) -> bool:
        """Whether this may be the fingerprint of such a request."""
        return key in self._pages or not self._over

    def is_second_use(self, request: Request, key: bytes, parent: Request) -> bool:
        """Whether a start page is requested a second time, for a different use.

        Scrapy's filter does not remember start requests. So a login may lead back to
        the start page, and its callback may request it with a different callback. That
        passes once, by :func:`second_name`. A link back is a duplicate.
        """
        if not self.is_page(key):
            return False
        if self._processing.answering is not None:
            return parent.method not in SAFE_METHODS
        # A parent without dont_filter is remembered by Scrapy's filter, too.
        return (
            parent.dont_filter
            and key == self._fingerprint(parent)
            and identity_of(request, key, parent)
            not in (key, identity_of(parent, key, parent))
        )
