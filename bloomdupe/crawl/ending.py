"""The end of a run: in good order, with its true reason, or after a failure."""

from __future__ import annotations

import logging
import math
import time
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from scrapy.exceptions import CloseSpider, DontCloseSpider

from bloomdupe.crawl.progress.pace import duration, plural, when
from bloomdupe.crawl.progress.rounds import FINISHED
from bloomdupe.errors import (
    FeedError,
    NotOwnerError,
    SettingError,
    StoreError,
    UnserializableError,
)
from bloomdupe.inside_scrapy.engine import Timer, fail_crawl, mark_failed, stop_crawl
from bloomdupe.printable import logger_of
from bloomdupe.store.system_errors import ADDRESSES, reason_of

if TYPE_CHECKING:
    from bloomdupe.crawl.engines.session import Session
    from bloomdupe.crawl.progress.history import Totals


logger = logger_of(__name__)

BETWEEN_WORDS = 60.0
"""Seconds between two log lines about the delayed requests."""


SHUTDOWN = "shutdown"
"""Finish reason of a run that was stopped by a signal, in Scrapy."""
INCOMPLETE = "incomplete"
"""Finish reason of a run that left requests undone, though it had the time."""
WAITING = "waiting"
"""Finish reason of a run that ended before its remaining requests were due."""
STOPPED = "stopped"
"""Finish reason of a run with more to do, for which its spider gave "finished"."""
ASKED_TO_STOP = "asked_to_stop"
"""Finish reason of a run that ``bloomdupe stop`` has ended."""


class Status(NamedTuple):
    """The status of a crawl at a moment."""

    ready: int
    """Requests that are pending, and not delayed."""
    in_flight: int
    """Requests that are handed out, also those that this run cannot end."""
    delayed: int
    """Delayed requests."""
    due_in: float
    """Seconds until the first of them is due."""
    more: bool
    """Whether there is other work: in the inbox, or of another worker."""
    start_ended: bool
    """Whether ``start()`` has yielded everything."""
    unstored: int = 0
    """Requests that this run cannot do, and that are stored nowhere."""

    @property
    def left(self) -> int:
        """Number of requests that are not done."""
        return self.ready + self.in_flight + self.delayed + self.unstored

    def reason(self, given: str) -> str:
        """Return the true reason of a crawl that Scrapy closes with a ``given`` one.

        It has *finished* when no request is left and none can come. It is *incomplete*
        when it has nothing to do, but requests are left: they cannot be restored, were
        refused, or their processing was aborted. Then feeds that are written at the end
        stay unwritten, and the next run tries these requests again.

        A spider may give another reason when it is idle. After Ctrl-C it may have more
        requests to come, even if none is pending.
        """
        if self.left:
            if given != FINISHED:
                return given
            if self.ready:
                return STOPPED
            return WAITING if self.left == self.delayed else INCOMPLETE
        ends = self.start_ended and not self.more and given != SHUTDOWN
        return FINISHED if ends else given


class Move(Enum):
    """The next step of a crawl, when no request is in flight in Scrapy."""

    GO_ON = "go on"
    SLEEP = "sleep until a request is due"
    WAIT = "wait for URLs"
    END = "end"


class Ending:
    """Lets a crawl go on, sleep, wait for URLs or end, and logs the reason."""

    def __init__(self, session: Session) -> None:
        self._session = session
        settings = session.settings
        self._stays = settings.stay
        self._longest_sleep = math.inf if settings.wait is None else settings.wait
        self._said_that_it_waits = False
        self._next_word = 0.0
        self._unstored = 0
        self._example: tuple[str, object] | None = None

    def leaves(self, url: str, why: object, *, unstored: bool = False) -> None:
        """Note a request that this run cannot do; ``unstored``: no store has it."""
        self._unstored += unstored
        if self._example is None:
            self._example = url, why

    @property
    def status(self) -> Status:
        """The status of the crawl now."""
        return self._session.engine.status._replace(unstored=self._unstored)

    def _next_move(self, status: Status) -> Move:
        """Decide on the next step if nothing else happens."""
        if status.ready or status.more:
            return Move.GO_ON
        if status.delayed and status.due_in <= self._longest_sleep:
            return Move.SLEEP
        return Move.WAIT if self._stays else Move.END

    @property
    def goes_on(self) -> bool:
        """Whether the crawl goes on because of pending requests."""
        return self._next_move(self.status) in (Move.GO_ON, Move.SLEEP)

    def log_sleep(self) -> None:
        """Log now and then that the crawl sleeps; called when no request is ready."""
        now = time.monotonic()
        if now < self._next_word:
            return
        status = self.status
        if self._next_move(status) is Move.SLEEP:
            self._next_word = now + BETWEEN_WORDS
            self._say_delayed(status, "the crawl sleeps until then")

    def idle(self) -> None:
        """Let Scrapy close the crawl with its reason (signal ``spider_idle``).

        Or let it stay open: then the signal comes again every few seconds.
        """
        if self._next_move(self.status) is Move.END:
            self._session.engine.committing.write()
        status = self.status
        move = self._next_move(status)
        if move is Move.WAIT:
            self._say_that_it_waits()
            raise DontCloseSpider
        if move is not Move.END:
            return
        reason = status.reason(FINISHED)
        if reason == WAITING:
            wait = f"BLOOMDUPE_WAIT = {self._longest_sleep:g}"
            self._say_delayed(status, f"{wait} ends the run; {self._remedy}")
        if reason != FINISHED:
            raise CloseSpider(reason)

    def _say_delayed(self, status: Status, what: str) -> None:
        seconds = status.due_in
        logger.info(
            "%(delayed)s delayed, the next one for %(when)s (in %(seconds)s): %(what)s",
            {
                "delayed": plural(status.delayed, "request is", "requests are"),
                "when": when(time.time() + seconds),
                "seconds": duration(max(0, seconds)),
                "what": what,
            },
        )

    def _say_that_it_waits(self) -> None:
        if self._said_that_it_waits:
            return
        self._said_that_it_waits = True
        logger.info(
            "Nothing is pending: the crawl waits for URLs (BLOOMDUPE_STAY)."
            " `bloomdupe add` adds them, and `bloomdupe stop` ends the crawl",
        )
        feeds = self._session.engine.feeds
        if feeds is not None and feeds.waiting:
            logger.warning(
                "Delivered only when `bloomdupe stop` finds nothing pending: %(feeds)s",
                {"feeds": ", ".join(feed.name for feed in feeds.waiting)},
            )

    def say_end(self, reason: str, totals: Totals, where: str) -> None:
        """Log how the run ended, ``where`` the items are, and the user's next step."""
        if reason in (INCOMPLETE, WAITING):  # they say more
            return
        line = f"{plural(totals.pages, 'page')}, {plural(totals.items, 'item')}{where}"
        if reason == FINISHED:
            line = f"Finished; {line}"
        else:
            left = plural(self.status.left, "request")
            line = f"Stopped; {line}, {left} pending: {self._remedy}"
        logger.info("%(line)s", {"line": line})

    def say_as_killed(self) -> None:
        """Log that nothing was written at the end of the run."""
        logger.info(
            "Stopped as if it was killed: the spider remembers pages that wait for"
            " requests in memory. The next run does again what came after the last"
            " checkpoint: %(remedy)s",
            {"remedy": self._remedy},
        )

    @property
    def _remedy(self) -> str:
        """How the requests come again that are left."""
        if not self._session.engine.durable:
            return "they are lost, for there is no JOBDIR"
        return "run the same command to go on"

    def say(self) -> None:
        """Log the requests that are left; the process ends with status 1."""
        mark_failed(self._session.crawler)
        left = self.status.left
        url, why = self._example or ("", "the log of this run, or of others, tells why")
        remedy = self._remedy
        if self._session.engine.durable:
            remedy = "mend the cause and run the same command again, which tries them"
            remedy += " again; feeds that wait for the end of the job wait until then"
            if self._unstored == left:
                remedy = f"start() yields them again: {remedy}"
            else:
                remedy += ". Or take them out with `bloomdupe drop`"
        logger.error(
            "The crawl is incomplete. Requests that are not done: %(left)d%(url)s"
            " (%(why)s); %(remedy)s",
            {
                "left": left,
                "url": url and f", such as {url}",
                "why": why,
                "remedy": remedy,
            },
        )


class Stopping:
    """Closes the crawl when it is asked to, or after the first failure.

    After a failure the process ends with status 1, and nothing more is committed: the
    last checkpoint stays valid, and the next run continues from it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._crawler = session.crawler
        self.as_killed = False
        """Whether the run ends without a checkpoint, though nothing has failed."""
        self.failure: BaseException | None = None
        self.may_be_refused = False
        """Whether a refused last commit is no failure: other workers go on."""
        # Not within the call that has failed: closing calls the scheduler.
        self._closing = Timer(self._close)

    @property
    def keeps_last(self) -> bool:
        """Whether the last checkpoint stays valid, and nothing later is written."""
        return self.failure is not None or self.as_killed

    def stop(self) -> None:
        """Close the crawl soon; requests in flight are finished first."""
        if not self._session.closed:
            self._closing.set(0)

    def fail(self, error: BaseException, what: str = "A checkpoint") -> None:
        """Record a failure, and close the crawl soon; ``what`` has failed.

        After a refused commit the crawl goes on from the last one, unless it closes.
        """
        if self.failure is not None:
            return
        if isinstance(error, NotOwnerError) and not self._session.closed:
            self._session.engine.refused(error)
            return
        self.failure = error
        if self.may_be_refused and isinstance(error, NotOwnerError):
            logger.warning(
                "The last commit of this worker was refused: %(error)s. It is done"
                " again by another worker, or when you run the same command again",
                {"error": error},
            )
            return
        stored = isinstance(error, StoreError) or (
            isinstance(error, FeedError) and error.__cause__ is None
        )
        expected = (MemoryError, SettingError, UnserializableError)
        known = stored or isinstance(error, expected)
        reason = f"{error}" or type(error).__name__
        if isinstance(error, MemoryError):
            what, reason = "Memory has run out", f"see {ADDRESSES}"
        elif stored:
            what = "The store or a feed failed"
        else:
            what = f"{what} failed"
        logger.critical(
            "%(what)s, so the crawl stops: %(reason)s. Once the cause is gone, run the"
            " same command again: it goes on from the last checkpoint.",
            {"what": what, "reason": reason},
            exc_info=None if known else error,
        )
        if self._session.closed:
            mark_failed(self._crawler)
        else:
            self._closing.set(0)

    def _close(self) -> None:
        if self.failure is None:
            stop_crawl(self._crawler, ASKED_TO_STOP)
        else:
            fail_crawl(self._crawler, reason_of(self.failure))
            # Nothing of the code that still runs counts any more.
            self._session.processing.cut_off()
            self._session.engine.fails_now()

    def end(self) -> None:
        """Record that the crawl closes anyway; a failure still counts."""
        self._closing.cancel()
        if self.failure is not None:
            mark_failed(self._crawler)


class MemoryWatch(logging.Handler):
    """Stops the crawl when a log record was caused by a ``MemoryError``.

    A kill by the kernel needs no detection. Under a limit (``ulimit -v``) Python raises
    ``MemoryError`` at any place instead. If a callback, a pipeline or a signal handler
    raises it, Scrapy logs it and goes on: the request would count as done.
    """

    def __init__(self, stopping: Stopping) -> None:
        super().__init__(logging.INFO)
        self._stopping = stopping

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a record; called by logging."""
        if record.exc_info and isinstance(record.exc_info[1], MemoryError):
            self._stopping.fail(MemoryError())
