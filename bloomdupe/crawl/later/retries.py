"""Retries: they wait, longer each time, and do not count while the server is away."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from scrapy import signals

from bloomdupe.crawl.later.circuits import Circuits, tries_of

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from bloomdupe.crawl.later.circuits import GrowingWait
    from bloomdupe.crawl.leases.lease import Lease
    from bloomdupe.crawl.leases.leases import Leases
    from bloomdupe.frontier.frontier import Frontier
    from bloomdupe.inside_scrapy.engine import EngineAccess

__all__ = ["Retries", "is_retry"]


def is_retry(request: Request, lease: Lease | None) -> bool:
    """Whether a request is a retry of the request of ``lease``.

    A retry has a higher retry count. A request with the same count was made with a copy
    of ``meta``, or is a redirect.
    """
    if not request.dont_filter:
        return False
    before = 0 if lease is None else tries_of(lease.request)
    return tries_of(request) > before


class Retries:
    """Recognises retries by ``meta["retry_times"]``, and delays them."""

    def __init__(
        self, crawler: Crawler, engine: EngineAccess, growing: GrowingWait
    ) -> None:
        assert crawler.stats is not None  # noqa: S101 - the crawl is open
        self._crawler = crawler
        self._stats = crawler.stats
        self._growing = growing
        self.circuits = Circuits(crawler, engine, growing)
        self._leases: Leases

    def attach(self, frontier: Frontier, leases: Leases) -> None:
        """Begin to watch the results of requests."""
        self.circuits.frontier = frontier
        self._leases = leases
        leases.handed_out.append(self.circuits.handed_out)
        leases.answered.append(self.circuits.answered)
        leases.ended.append(self.circuits.ended)
        self._crawler.signals.connect(
            self._response_downloaded, signals.response_downloaded
        )

    def _response_downloaded(self, response: Response, request: Request) -> None:
        self.circuits.response_downloaded(response, request, self._leases.of)

    def let_wait(
        self,
        request: Request,
        lease: Lease | None,
        not_before: float | None,
        *,
        answer: bool,
    ) -> tuple[Request, float | None]:
        """Return a request and the Unix time before which it waits, if it is a retry.

        ``lease`` belongs to the request that led to it. ``answer`` says whether the
        request is the downloader's answer to that.
        """
        if not is_retry(request, lease):
            return request, not_before
        if answer and lease is not None and not lease.try_counts:
            # It waits in its slot until that answers again.
            self._stats.inc_value("bloomdupe/retries_not_counted")
            request = request.copy()
            request.meta["retry_times"] = tries_of(lease.request)
            return request, not_before
        due = time.time() + self._growing.seconds(tries_of(request))
        return request, due if not_before is None else max(due, not_before)
