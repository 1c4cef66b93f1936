"""SharedAdmission: whether a crawl may join the one on Redis, before it is opened."""

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
    """An extension that looks at Redis, and then is gone.

    For the reasons of :class:`bloomdupe.crawl.admission.Admission`, which see.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> NoReturn:
        """Refuse the crawl, or raise ``NotConfigured``; called by Scrapy."""
        if crawler.spider is not None:
            try:
                # Not before: without redis-py, that is the first error to tell of.
                from bloomdupe.shared.joining import check_shared

                check_shared(crawler)
            except BloomDupeError as error:
                refuse(crawler, crawler.settings, error)
        raise NotConfigured
