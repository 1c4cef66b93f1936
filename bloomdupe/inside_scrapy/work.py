"""Work: a request in progress, as the owner of the code that runs for it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol


class Work(Protocol):
    """A request handed to the engine, as the owner of the work on it."""

    @property
    def is_dropped(self) -> bool:
        """Whether nothing of it counts any more, so that it need not begin."""

    def answered(self, result: object) -> None:
        """Handle the downloader's answer: a response, request or failure."""

    def takes_item(self) -> bool:
        """Whether the next item goes on to the pipelines; asked once for each item."""

    def gave_up(self, error: BaseException) -> None:
        """There is no page for the callback: the errback gets this exception."""

    def closed_spider(self, error: BaseException, response: object) -> None:
        """The callback or errback has raised ``CloseSpider``, given a response."""

    def raised(self, error: BaseException, response: object) -> None:
        """The callback or errback has raised an exception, given a response."""

    def broke_off(self, error: BaseException) -> None:
        """Processing has failed; the end follows, not whole."""

    def ended(self, *, whole: bool) -> None:
        """The work has ended; ``whole`` says that processing has not failed."""


CURRENT: ContextVar[Work | None] = ContextVar("bloomdupe_work", default=None)
"""The work of the running code. A task inherits it from the code that starts it."""


def current_work() -> Any:  # noqa: ANN401 - any object of the crawl
    """Return the work of the running code; None if it is unknown."""
    return CURRENT.get()
