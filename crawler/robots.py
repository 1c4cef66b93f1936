"""Obey robots.txt also for requests that wait for it together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.robotstxt import RobotParser

__all__ = ["RobotsMiddleware"]


class RobotsMiddleware(RobotsTxtMiddleware):
    """Scrapy's middleware, with a bug of version 2.19 on asyncio fixed.

    With this bug, if several requests wait for the robots.txt of a host, only the first
    request gets the rules, and the rest pass unchecked: awaiting a deferred as
    several futures gives None to the later ones. A resumed crawl begins with several
    requests.
    """

    def process_request_2(
        self, rp: RobotParser | None, request: Request, *spider: Spider
    ) -> None:
        """Check a request against the rules that have arrived by now."""
        if rp is None:
            found = self._parsers.get(urlparse_cached(request).netloc)
            rp = None if isinstance(found, Deferred) else found
        super().process_request_2(rp, request, *spider)
