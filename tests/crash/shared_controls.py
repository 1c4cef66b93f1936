"""Controls of crawls that workers share: a guard is taken out where it is needed.

Each goes step by step, so that it is caught each time.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from disturbed_crawl import LEASE, DisturbedCrawl, Worker
from shared_judge import doubled
from support import taken_out

BEGUN = 12
"""Answers until there is something to lose."""


class ControlledCrawl(DisturbedCrawl):
    """A crawl of which the first worker has a fault, and the second one goes on."""

    adds = 0

    def fence(self) -> None:
        """The first worker goes on when the second one has done its pages."""
        first = self._first()
        first.process.send(signal.SIGSTOP)
        second = self._hire_one()
        self._wait_for([second])
        # Without the fence it may renew the leases of the first one, for ever.
        late = time.monotonic() + LEASE
        self._until(lambda: not self._end_leases({first}) or time.monotonic() > late)
        self.site.release()
        self._until(lambda: not second.process.alive)
        first.process.send(signal.SIGCONT)
        self.finish()

    def memory(self) -> None:
        """Redis goes back, so that it has forgotten pages that were done."""
        first = self._first()
        server = self._place.server
        written = server.written
        enough = len(self._outputs) + BEGUN // 2
        self._allow(BEGUN)
        self._until(lambda: len(self._outputs) > enough)
        first.process.send(signal.SIGSTOP)
        server.kill()
        server.cut_back(*written)
        server.start()
        first.process.send(signal.SIGCONT)
        self.finish()

    @property
    def _outputs(self) -> list[object]:
        return [*self.stored.lines()]

    def _first(self) -> Worker:
        """Hire a worker, and wait until it has pages in flight."""
        self.begin(taken_out.fence)
        self._allow(BEGUN)
        first = self._hire_one()
        self._until(lambda: self.site.shut and self.site.waiting)
        return first

    def _until(self, condition: Callable[[], object]) -> None:
        """Wait; a crawl without a guard may never end, so what is wrong ends it."""

        def holds() -> object:
            assert not (wrong := doubled(self)), wrong
            return condition()

        super()._until(holds)
