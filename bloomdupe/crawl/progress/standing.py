"""Standing: how a crawl stands, and the next step. Knows nothing of Scrapy."""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

from bloomdupe.crawl.progress.rounds import FINISHED

SHUTDOWN = "shutdown"
"""Finish reason of a run that was stopped by a signal, in Scrapy."""
INCOMPLETE = "incomplete"
"""Finish reason of a run that left requests undone, though it had the time."""
WAITING = "waiting"
"""Finish reason of a run that ended before its remaining requests were due."""
ASKED_TO_STOP = "asked_to_stop"
"""Finish reason of a run that ``bloomdupe stop`` has ended."""


class Standing(NamedTuple):
    """How a crawl stands at a moment."""

    ready: int = 0
    """Requests that are pending, and not scheduled for later."""
    in_progress: int = 0
    """Requests that are handed out, also those that this run cannot end."""
    later: int = 0
    """Requests that are scheduled for later."""
    due_in: float = math.inf
    """Seconds until the first of them is due."""
    apart: int = 0
    """Requests that this run cannot do, and that are stored nowhere."""
    more: bool = False
    """Whether there is other work: in the inbox, or of another worker."""
    start_ended: bool = True
    """Whether ``start()`` has yielded everything."""
    stays: bool = False
    """Whether the crawl waits for URLs when it has nothing to do."""
    longest_sleep: float = math.inf
    """Seconds that it may wait for requests that are scheduled for later."""

    @property
    def left(self) -> int:
        """Number of requests that are not done."""
        return self.ready + self.in_progress + self.later + self.apart


class Move(Enum):
    """The next step of a crawl, when no request is in progress in Scrapy."""

    GO_ON = "go on"
    SLEEP = "sleep until a request is due"
    WAIT = "wait for URLs"
    END = "end"


class Decision(NamedTuple):
    """The next step of a crawl; and if it ends, how."""

    move: Move
    reason: str = ""
    """The true finish reason."""

    @property
    def status(self) -> int:
        """The exit status of a process that ends so, unless anything has failed."""
        return int(self.reason == INCOMPLETE)


def next_move(crawl: Standing) -> Decision:
    """Decide on the next step if nothing else happens."""
    if crawl.ready or crawl.more:
        return Decision(Move.GO_ON)
    if crawl.later and crawl.due_in <= crawl.longest_sleep:
        return Decision(Move.SLEEP)
    if crawl.stays:
        return Decision(Move.WAIT)
    return ended(crawl, FINISHED)


def ended(crawl: Standing, reason: str) -> Decision:
    """Decide how a crawl has ended that Scrapy closes with ``reason``.

    It has *finished* when no request is left and none can come. It is *incomplete* when
    it has nothing to do, but requests are left: they cannot be restored, were refused,
    or their processing broke off. Then feeds that are written at the end stay
    unwritten, and the next run tries these requests again.

    A spider may give another reason when it is idle. After Ctrl-C it may have more
    requests to come, even if none is pending.
    """
    if not crawl.left:
        if crawl.start_ended and not crawl.more and reason != SHUTDOWN:
            reason = FINISHED
    elif reason == FINISHED:
        reason = WAITING if crawl.left == crawl.later else INCOMPLETE
    return Decision(Move.END, reason)
