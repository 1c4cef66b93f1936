"""SharedAdmission: refuses a crawl that may not join the crawl on Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured

from bloomdupe.crawl.admission import refuse
from bloomdupe.errors import BloomDupeError

if TYPE_CHECKING:
    from typing import NoReturn

    from scrapy.crawler import Crawler

__all__ = ["SharedAdmission"]


class SharedAdmission:
    """An extension that checks the crawl on Redis, and is then disabled.

    See :class:`bloomdupe.crawl.admission.Admission` for the reasons.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> NoReturn:
        """Refuse the crawl, or raise ``NotConfigured``; called by Scrapy."""
        if crawler.spider is not None:
            try:
                # Imported here, so that a missing redis-py is the first error.
                from bloomdupe.crawl.engines.on_redis.joining import check_shared

                check_shared(crawler)
            except BloomDupeError as error:
                refuse(crawler, crawler.settings, error)
        raise NotConfigured
