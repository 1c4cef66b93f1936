"""Tells each private name that the installed Scrapy lacks.

``python tests/scrapys_own/private_names.py`` opens an empty crawl, with Scrapy's own
scheduler, and makes the checks of a crawl with bloomdupe. Exit status 1
if a name is missing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from scrapy import Spider, __version__, signals
from scrapy.crawler import CrawlerProcess

from bloomdupe.errors import EngineError
from bloomdupe.inside_scrapy.cookie_jars import CookieJars
from bloomdupe.inside_scrapy.engine import missing_names
from bloomdupe.inside_scrapy.feed_exporter import FeedExporterAccess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from scrapy.crawler import Crawler


class _Empty(Spider):
    """Asks for nothing; looks at its crawl when it is open."""

    name = "empty"
    problems: list[str]
    checked: list[bool]

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> _Empty:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.look, signals.spider_opened)
        return spider

    async def start(self) -> AsyncIterator[Any]:
        """Yield nothing."""
        for request in list[Any]():
            yield request

    def look(self) -> None:
        """Make all checks."""
        self.problems += missing_names(self.crawler.engine)
        exporter = FeedExporterAccess.from_crawler(self.crawler)
        self.problems += _refusals(exporter.check)
        self.problems += _refusals(lambda: CookieJars.of(self.crawler))
        self.checked.append(True)


def _refusals(check: Callable[[], object]) -> list[str]:
    try:
        check()
    except EngineError as error:
        return [str(error)]
    return []


def main() -> int:
    """Print what is missing; return the exit status."""
    problems: list[str] = []
    checked: list[bool] = []
    settings = {"LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False}
    settings |= {"FEEDS": {"/dev/null": {"format": "csv"}}}
    process = CrawlerProcess(settings)
    process.crawl(_Empty, problems=problems, checked=checked)
    process.start()
    if not checked:
        sys.exit(f"Scrapy {__version__}: the checks have failed, see above")
    for problem in problems:
        print(problem)
    print(f"Scrapy {__version__}: {len(problems)} private names are missing")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
