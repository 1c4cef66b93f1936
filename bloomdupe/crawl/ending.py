"""Ending: the finish reason of a run that has nothing left to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import CloseSpider

from bloomdupe.crawl.later.sleeping import WAITING
from bloomdupe.crawl.progress.plural import plural
from bloomdupe.crawl.progress.rounds import FINISHED
from bloomdupe.inside_scrapy.engine import mark_failed
from bloomdupe.printable import logger_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from bloomdupe.crawl.engines.engine_contract import Engine
    from bloomdupe.crawl.totals import Totals

__all__ = ["INCOMPLETE", "Ending"]

logger = logger_of(__name__)

INCOMPLETE = "incomplete"
"""Finish reason of a run that left requests undone, though it had the time."""


class Ending:
    """Decides whether a crawl has finished, and logs the reason if it has not.

    A crawl has *finished* when no request is pending or in progress. It is *incomplete*
    when Scrapy has nothing left to do, but requests are left: they cannot be restored,
    were refused, or their processing broke off. Then the process ends with exit status
    1, feeds that are written at the end stay unwritten, and the next run tries these
    requests again.
    """

    def __init__(self, crawler: Crawler, engine: Engine) -> None:
        self._crawler = crawler
        self._engine = engine
        self._apart = 0
        self._example: tuple[str, object] | None = None

    def leaves(self, url: str, why: object, *, apart: bool = False) -> None:
        """Note a request that this run cannot do; ``apart``: it is not stored."""
        self._apart += apart
        if self._example is None:
            self._example = url, why

    @property
    def left(self) -> int:
        """Return the number of requests that this run has not done."""
        return self._engine.left + self._apart

    def reason_of(self, reason: str) -> str:
        """Return the true finish reason of a run that ends with ``reason``."""
        if reason != FINISHED or not self.left:
            return reason
        return WAITING if self.left == self._engine.later else INCOMPLETE

    def idle(self) -> None:
        """Let the engine close the crawl with its reason (signal ``spider_idle``)."""
        reason = self.reason_of(FINISHED)
        if reason == WAITING:
            self._engine.say_later()
        if reason != FINISHED:  # unless there is work by now: the engine looks
            raise CloseSpider(reason)

    def say_end(
        self, reason: str, totals: Totals, where: str, *, pending: bool
    ) -> None:
        """Log how the run ended, ``where`` the items are, and what the user can do.

        ``pending`` says whether the number of pending requests is known.
        """
        if reason in (INCOMPLETE, WAITING):  # they say more
            return
        done = f"{plural(totals.pages, 'page')}, {plural(totals.items, 'item')}"
        if reason == FINISHED:
            line = f"Finished; {done}{where}"
        else:
            remedy = "run the same command to go on"
            if not self._engine.durable:
                remedy = "they are lost, for there is no JOBDIR"
            left = f", {plural(self.left - self._apart, 'request')} pending"
            line = f"Stopped; {done}{where}{left if pending else ''}: {remedy}"
        logger.info("%(line)s", {"line": line}, extra={"spider": self._crawler.spider})

    def say(self) -> None:
        """Log the requests that are left; the process ends with status 1."""
        mark_failed(self._crawler)
        url, why = self._example or ("", "the crawl was closed before their turn")
        remedy = self._engine.remedy
        if self._apart == self.left and self._engine.durable:
            remedy = (
                "start() yields them again: mend the cause and run the same command"
                " again. Feeds that wait for the end of the job wait until then"
            )
        logger.error(
            "The crawl is incomplete. Requests that are not done: %(left)d%(url)s"
            " (%(why)s). %(remedy)s",
            {
                "left": self.left,
                "url": url and f", such as {url}",
                "why": why,
                "remedy": remedy,
            },
            extra={"spider": self._crawler.spider},
        )
