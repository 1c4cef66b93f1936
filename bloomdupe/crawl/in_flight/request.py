"""One request that is in flight, and its state until it ends."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from scrapy import Request, exceptions
from scrapy.exceptions import IgnoreRequest, StopDownload
from scrapy.http import Response
from scrapy.spidermiddlewares.httperror import HttpError
from scrapy.utils.python import global_object_name
from twisted.internet import error as internet
from twisted.python.reflect import safe_str
from twisted.web.client import ResponseFailed

from bloomdupe.crawl.in_flight.outcomes import Outcome
from bloomdupe.requests.layout import Visit

if TYPE_CHECKING:
    from bloomdupe.crawl.in_flight.registry import InFlightRegistry
    from bloomdupe.frontier.sent_request import SentRequest
    from bloomdupe.frontier.slot_queue import Entry


CODE = ("callback", "errback", "pipeline")
"""Reasons that lie in the project's own code."""

MOST_DETAIL = 300
"""Characters of a message that are kept."""


REASONS: tuple[tuple[str, tuple[type[BaseException], ...]], ...] = (
    (
        "timeout",
        (
            TimeoutError,
            internet.TimeoutError,
            internet.TCPTimedOutError,
            exceptions.DownloadTimeoutError,
        ),
    ),
    ("dns", (internet.DNSLookupError, exceptions.CannotResolveHostError)),
    (
        "connection",
        (
            ConnectionError,
            internet.ConnectError,
            internet.ConnectionClosed,
            ResponseFailed,
            exceptions.DownloadConnectionRefusedError,
            exceptions.DownloadFailedError,
        ),
    ),
)
"""Exceptions of downloads by reason; the reason of any other is ``download``."""


@dataclass(slots=True, eq=False, repr=False)
class InFlightRequest:
    """One request handed to the engine: a ``Work`` of ``inside_scrapy.processing``.

    Its *root* is the request itself. A request that cannot be stored is a *part* of its
    page: it has the root ``of`` the page, which is done when all its parts have ended.
    For *volatile* roots and for parts that count by themselves see
    :mod:`bloomdupe.crawl.in_flight.registry`.
    """

    registry: InFlightRegistry
    entry: Entry
    of: InitVar[InFlightRequest | None] = None
    request: Request = field(init=False)
    """Once it is handed out; of a request that cannot be stored, before that, too."""
    root: InFlightRequest = field(init=False)
    outcome: Outcome = field(init=False)
    """What the root and its parts have yielded so far."""
    page: InFlightRequest | None = None
    """Of a root that is volatile: the root that is acknowledged before it. Of a root
    that cannot be stored: the root that is not done before it."""
    parts: int = 1
    """Of a root: number of requests that have not ended, with itself."""
    children: list[InFlightRequest] = field(default_factory=list)
    """Of a root: volatile requests that it and its parts have yielded."""
    begun: bool = False
    """Whether it has yielded an item, or a request that is not a plain link."""
    broken: bool = False
    """Of a root: whether it is not done though it ends. The processing of it or of a
    part was aborted, or a request that it has yielded was refused."""
    first: bytes | None = field(init=False)
    """Payload of the request before its first try, as far as it is known."""
    status: int | None = None
    """HTTP status of the last response of the downloader, as no middleware saw it."""
    failed: FailureReason | None = None
    """The first failure, if there is any."""
    loose: bool = False
    """Whether neither a page nor ``start()`` would yield it again."""
    retried: bool = False
    """Whether the answer was a retry of the same request, or its errback asks again."""
    try_counts: bool = True
    """Whether a retry of it counts as one of its tries."""
    is_start_item: bool = False
    """Whether it is an item of ``start()``, and the page of what its pipelines ask
    for: no callback and no download belong to it, and its request is none."""

    def __post_init__(self, of: InFlightRequest | None) -> None:
        self.root = self if of is None else of
        self.outcome = Outcome() if of is None else of.outcome
        self.first = self.entry.payload

    @property
    def visit(self) -> Visit:
        """The visits of its page, as its payload has them."""
        return Visit.of(self.entry.payload)

    @property
    def is_volatile(self) -> bool:
        """Whether it does not count before its page is acknowledged."""
        return self.page is not None and self.entry.payload is not None

    @property
    def is_part(self) -> bool:
        """Whether its page is not done before it, because it cannot be stored."""
        return self.root is not self or (self.page is not None and not self.is_volatile)

    @property
    def waits_for_commit(self) -> bool:
        """Whether it would be lost if the process died: no callback may see its page.

        A program that has it in a table would count it as done.
        """
        return self.loose and self.entry.queue.slots.partition.lacks(self.entry)

    @property
    def is_left(self) -> bool:
        """Of a root: whether it has ended, and is not done."""
        return self.broken and not self.parts

    @property
    def is_dropped(self) -> bool:
        """Whether it is handed out again, and nothing of it counts any more."""
        return self.root.is_left

    @property
    def is_acked(self) -> bool:
        """Of a root: whether it counts."""
        return not (self.parts or self.broken or self.page)

    @property
    def is_running(self) -> bool:
        """Whether its own callback and pipelines have not ended."""
        return self.registry.of(self.request) is self

    @property
    def shown(self) -> object:
        """Its name in the log."""
        return "start()" if self.is_start_item else self.request

    @property
    def is_revisited(self) -> bool:
        """Whether the page has a next visit, regardless of the result of this visit."""
        return self.outcome.visited is not None

    def release(self) -> None:
        """Free the slot, unless it is free already."""
        self.registry.engine.frontier.release(self.entry)

    def answered(self, result: object) -> None:
        """Handle the downloader's answer: the slot is free."""
        self.release()
        engine = self.registry.engine
        engine.session.slots.answered(self, result)
        engine.revisits.answered(self, result)
        if isinstance(result, Response):
            slot = self.entry.queue.name
            answer = (result.status, slot, len(result.body))
            self.outcome.answers.append(answer)
        elif isinstance(result, Request):
            self.retried = result.url == self.request.url

    def takes_item(self) -> None:
        """Note that the callback has yielded an item."""
        self.begun = True

    def closed_spider(self, error: BaseException, response: object) -> None:
        """Note that the callback has raised ``CloseSpider``.

        A page that has yielded nothing before, for example because it is a captcha, is
        tried again in the next run. Any other page is done with its output so far.
        """
        if self.begun:
            self.raised(error, response)
        else:
            self.root.broken = True

    def gave_up(self, error: BaseException) -> None:
        """Remember why there is no page."""
        if isinstance(error, MemoryError):  # an errback would take care of it
            self.registry.engine.session.stopping.fail(error)
        self.failed = FailureReason.of_download(error)

    def raised(self, error: BaseException, response: object) -> None:
        """Remember an exception of the callback or errback, given a response."""
        if self.failed is None:
            self.failed = FailureReason.of_code("callback", error, response)
        elif self.failed.reason not in CODE:
            self.failed = self.failed.and_then(error)

    def item_failed(self, error: BaseException, response: object) -> None:
        """Remember an exception of a pipeline."""
        if self.failed is None and not self.is_start_item:
            self.failed = FailureReason.of_code("pipeline", error, response)

    def aborted(self, error: BaseException) -> None:
        """Record the error that has aborted the processing: the next run repeats it."""
        self.root.broken = True
        why = f"its processing was aborted: {error!r}"
        self.registry.engine.session.ending.leaves(self.request.url, why)

    def ended(self) -> None:
        """End the request: callback, pipelines and exports are through."""
        self.registry.end(self)


class Accepted(NamedTuple):
    """A request that the crawl has accepted."""

    request: Request
    sent: SentRequest
    """The same as bytes; without any if it need not be stored, or cannot be."""
    work: InFlightRequest | None
    """The request in flight, or item of ``start()``, that has led to it."""
    of_start: bool = False
    """Whether ``start()`` has yielded it."""
    is_part: bool = False
    """Whether it cannot be stored."""

    @property
    def is_loose(self) -> bool:
        """Whether neither a page nor ``start()`` would yield it again."""
        return self.work is None and not self.of_start


class FailureReason(NamedTuple):
    """The reason for which a request failed."""

    reason: str
    """One of :data:`bloomdupe.settings.FAILURE_REASONS`."""
    status: int | None
    """HTTP status of the response, if there was one."""
    detail: str
    """The exception and its message."""

    @classmethod
    def of_download(cls, error: BaseException) -> FailureReason | None:
        """Return why there is no page; None if it was intended (robots.txt)."""
        if isinstance(error, HttpError):
            status = int(error.response.status)
            return cls("status", status, f"HTTP status {status}")
        if isinstance(error, (IgnoreRequest, StopDownload)):
            return None
        for reason, kinds in REASONS:
            if isinstance(error, kinds):
                return cls(reason, None, _described(error))
        return cls("download", None, _described(error))

    @classmethod
    def of_code(
        cls, reason: str, error: BaseException, response: object
    ) -> FailureReason:
        """Describe an exception of a callback or pipeline."""
        status = response.status if isinstance(response, Response) else None
        return cls(reason, status, _described(error))

    def and_then(self, error: BaseException) -> FailureReason:
        """Add that the errback, which was told of this, has raised something else."""
        detail = f"{_described(error)}; told of {self.detail}"[:MOST_DETAIL]
        return FailureReason("errback", self.status, detail)


def _described(error: BaseException) -> str:
    name = global_object_name(type(error)).removeprefix("builtins.")
    return f"{name}: {safe_str(error)}"[:MOST_DETAIL]
