"""Controls of crawls that workers share: a guard is taken out where it is needed.

Each goes step by step, so that it is caught each time.
"""

from __future__ import annotations

import signal

from disturbed_crawl import DisturbedCrawl, Worker
from support import taken_out
from support.crawl import Before

BEGUN = 12
"""Answers until there is something to lose."""


class ControlledCrawl(DisturbedCrawl):
    """A crawl of which the first worker has a fault, and the second one goes on."""

    adds = 0

    def fence(self) -> None:
        """The first worker goes on when the second one has done its pages."""
        first = self._first(taken_out.fence)
        first.process.send(signal.SIGSTOP)
        second = self._hire_one()
        self._wait_for([second])
        self._rob({first})
        self.site.release()
        self._until(lambda: not second.process.alive)
        first.process.send(signal.SIGCONT)
        self._finish()

    def memory(self) -> None:
        """Redis goes back, so that it has forgotten pages that were done."""
        first = self._first(taken_out.fence)
        server = self._place.server
        written = server.written
        begun = len(self.crawl.engine.items(self.crawl.folder))
        self._allow(BEGUN)
        self._until(
            lambda: len(self.crawl.engine.items(self.crawl.folder)) > begun + BEGUN // 2
        )
        first.process.send(signal.SIGSTOP)
        server.kill()
        server.cut_back(*written)
        server.start()
        first.process.send(signal.SIGCONT)
        self._finish()

    def _first(self, before: Before) -> Worker:
        """Hire a worker, and wait until it has pages in flight."""
        self._begin(before)
        self._allow(BEGUN)
        first = self._hire_one()
        self._until(lambda: self.site.shut and self.site.waiting)
        return first
