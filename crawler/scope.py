"""The scope of a crawl: the URLs that belong to it."""

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
    """The hosts of a crawl, and the patterns of wanted and unwanted URLs."""

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

    Start requests always pass, together with their redirects (they have
    ``dont_filter``). So does robots.txt: if ``allow`` excluded it, the crawl would
    consider it missing and fetch pages that it forbids.
    """

    def should_follow(self, request: Request, spider: Spider) -> bool:
        """Tell whether to download this request; called by the base class."""
        if request.meta.get("dont_obey_robotstxt"):
            return True
        scope: Scope = spider.scope  # type: ignore[attr-defined]
        return scope.covers(request.url)
