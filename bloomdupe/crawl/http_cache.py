"""WholeCache: an answer in Scrapy's HTTP cache is complete, or it is missing.

Scrapy writes an answer as seven files in a folder, without temporary names. If the
process is killed meanwhile, some of them are cut off, and the next run uses them as the
answer: the page fails, or is incomplete.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.extensions.httpcache import FilesystemCacheStorage

if TYPE_CHECKING:
    from scrapy import Request, Spider
    from scrapy.http import Response

UNFINISHED = "unfinished"
"""Name of a file beside the files of an answer while they are written."""


class WholeCache(FilesystemCacheStorage):
    """Scrapy's cache in files, and a mark in a folder while an answer is written there.

    The bytes are Scrapy's, so a cache can be used with and without this class. It is
    safe against the end of the process, not against that of the machine, for nothing
    is synced.
    """

    def open_spider(self, spider: Spider) -> None:
        """Begin to work for a spider; called by Scrapy."""
        super().open_spider(spider)
        fingerprinter = spider.crawler.request_fingerprinter
        assert fingerprinter is not None  # noqa: S101 - the crawl is open
        self._fingerprint = fingerprinter.fingerprint

    def retrieve_response(self, spider: Spider, request: Request) -> Response | None:
        """Return the stored answer to a request, if it is complete."""
        if self._mark(spider, request).exists():
            return None
        return super().retrieve_response(spider, request)

    def store_response(
        self, spider: Spider, request: Request, response: Response
    ) -> None:
        """Store an answer."""
        mark = self._mark(spider, request)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        super().store_response(spider, request, response)
        mark.unlink(missing_ok=True)  # another crawl may have stored it, too

    def _mark(self, spider: Spider, request: Request) -> Path:
        key = self._fingerprint(request).hex()
        # Scrapy documents this layout of its cache.
        return Path(self.cachedir, spider.name, key[:2], key, UNFINISHED)
