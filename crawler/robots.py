"""Obeying robots.txt also for requests that wait for it together."""

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
    """Scrapy's own, with a fault of version 2.19 on asyncio mended.

    There, of several requests that wait for the robots.txt of a host, only the first
    gets the rules, and the others pass unchecked: awaiting one deferred as several
    futures gives None to the later ones. A crawl that goes on begins with several.
    """

    def process_request_2(
        self, rp: RobotParser | None, request: Request, *spider: Spider
    ) -> None:
        """Judge a request by the rules that have arrived by now."""
        if rp is None:
            found = self._parsers.get(urlparse_cached(request).netloc)
            rp = None if isinstance(found, Deferred) else found
        super().process_request_2(rp, request, *spider)
