"""Stopping: a crawl that cannot go on is closed once, with a reason and a status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.errors import SettingError, StoreError, UnserializableError
from bloomdupe.inside_scrapy.engine import fail_crawl, mark_failed
from bloomdupe.inside_scrapy.timer import Timer
from bloomdupe.printable import logger_of
from bloomdupe.store.system_errors import limit_of_memory, reason_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

__all__ = ["Stopping"]

logger = logger_of(__name__)


class Stopping:
    """Closes the crawl after the first failure; the process ends with status 1.

    After the failure nothing is committed: the last checkpoint stays valid, and the
    next run continues from it.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self.failure: BaseException | None = None
        self._ending = False
        # Not within the call that has failed: closing calls the scheduler.
        self._closing = Timer(self._close)

    def fail(self, error: BaseException) -> None:
        """Record a failure, and close the crawl soon."""
        if self.failure is not None:
            return
        self.failure = error
        what, reason = "A checkpoint failed", f"{error}" or type(error).__name__
        if isinstance(error, StoreError):
            what = "The store of the crawl failed"
        if isinstance(error, MemoryError):
            what, reason = "Memory has run out", limit_of_memory()
        plain = (SettingError, UnserializableError)
        if isinstance(error, plain):
            what = "The crawl cannot go on"
        expected = isinstance(error, (StoreError, MemoryError, *plain))
        logger.critical(
            "%(what)s, so the crawl stops: %(reason)s. Once the cause is gone, run the"
            " same command again: it goes on from the last checkpoint.",
            {"what": what, "reason": reason},
            exc_info=None if expected else error,
            extra={"spider": self._crawler.spider},
        )
        if self._ending:
            mark_failed(self._crawler)
        else:
            self._closing.set(0)

    def _close(self) -> None:
        assert self.failure is not None  # noqa: S101 - it was set before the timer
        fail_crawl(self._crawler, reason_of(self.failure))

    def end(self) -> None:
        """Record that the crawl closes anyway; a failure still counts."""
        self._ending = True
        if self.failure is not None:
            self._closing.cancel()
            mark_failed(self._crawler)
