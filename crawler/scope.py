"""Which URLs belong to a crawl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.offsite import OffsiteMiddleware

from crawler.hosts import host_of

if TYPE_CHECKING:
    import re

    from scrapy import Request, Spider

__all__ = ["Scope", "ScopeMiddleware"]


@dataclass(frozen=True)
class Scope:
    """The hosts of a crawl, and what of them is wanted."""

    hosts: frozenset[str]
    """Names as from :func:`crawler.hosts.host_of`."""
    allow: re.Pattern[str] | None = None
    """Only URLs in which this is found, if given."""
    deny: re.Pattern[str] | None = None
    """No URL in which this is found, even if ``allow`` is found too."""

    def covers(self, url: str) -> bool:
        """Tell whether the crawl follows a link to this absolute URL. Never raises."""
        return (
            host_of(url) in self.hosts
            and (self.allow is None or self.allow.search(url) is not None)
            and (self.deny is None or self.deny.search(url) is None)
        )


class ScopeMiddleware(OffsiteMiddleware):
    """Drop requests that leave the scope of their spider, redirects above all.

    The start requests are let through whatever they redirect to (they have
    ``dont_filter``), and so is robots.txt: if ``allow`` kept it out, the crawl would
    take it as missing and fetch what it forbids.
    """

    def should_follow(self, request: Request, spider: Spider) -> bool:
        """Tell whether to download this request; called by the base class."""
        if request.meta.get("dont_obey_robotstxt"):
            return True
        scope: Scope = spider.scope  # type: ignore[attr-defined]
        return scope.covers(request.url)
