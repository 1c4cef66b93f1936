"""``scrapy crawl`` with one-line messages for the user's errors, and an exit status.

Scrapy's own command prints a traceback for every error at the start, and exits with 0
even if the crawl fails.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING, Any

from scrapy.commands import crawl
from scrapy.exceptions import UsageError

if TYPE_CHECKING:
    import argparse

    from scrapy.crawler import Crawler
    from twisted.python.failure import Failure

__all__ = ["Command"]

logger = logging.getLogger(__name__)

_GOOD_REASONS = ("finished", "waiting", "shutdown", "max_pages", "closespider_")


class Command(crawl.Command):
    """Run a spider; exit status 0 if it went well, 1 if not, 2 for wrong options."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the spider named in *args* with the arguments in ``opts.spargs``."""
        if len(args) != 1:
            super().run(args, opts)  # it knows what to say
            return
        assert self.crawler_process is not None  # noqa: S101 - Scrapy sets it
        crawler = self.crawler_process.create_crawler(args[0])
        errors = _collect_errors(self.crawler_process.crawl(crawler, **opts.spargs))
        self.crawler_process.start()
        for error in errors:
            self._report(error)
        if errors or not _ended_well(crawler):
            self.exitcode = 1

    def _report(self, error: BaseException) -> None:
        if isinstance(error, UsageError):
            raise error  # Scrapy prints it and exits with 2
        if isinstance(error, (OSError, ValueError)):
            # Files, ports, settings: the message says it all.
            logger.debug("The crawl could not start", exc_info=error)
            sys.stderr.write(f"scrapy crawl: error: {error}\n")
        else:
            logger.error("The crawl could not start", exc_info=error)


def _collect_errors(crawling: Any) -> list[BaseException]:
    """Return a list that will hold the error of *crawling*, which is now handled.

    A task or a deferred, depending on TWISTED_REACTOR.
    """
    errors: list[BaseException] = []

    def task_done(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            errors.append(error)

    def deferred_failed(failure: Failure) -> None:
        if failure.value is not None:
            errors.append(failure.value)

    if isinstance(crawling, asyncio.Task):
        crawling.add_done_callback(task_done)
    else:
        crawling.addErrback(deferred_failed)
    return errors


def _ended_well(crawler: Crawler) -> bool:
    """Tell whether the crawl ended for a good reason, or was stopped by hand."""
    if crawler.spider is None:
        return False
    # None: stopped so hard (Ctrl-C twice) that there was no time for a reason.
    reason = crawler.stats.get_value("finish_reason")
    return reason is None or str(reason).startswith(_GOOD_REASONS)
