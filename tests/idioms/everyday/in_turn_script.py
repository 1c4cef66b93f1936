"""A script that runs two crawlers in one process, one after the other."""

from __future__ import annotations

import sys
from typing import Any

from scrapy.crawler import CrawlerRunner
from scrapy.utils.log import configure_logging
from scrapy.utils.project import get_project_settings
from scrapy.utils.reactor import install_reactor
from twisted.internet.defer import inlineCallbacks

from everyday.processes import First, Second

install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
settings = get_project_settings()
configure_logging(settings)
runner = CrawlerRunner(settings)


@inlineCallbacks
def crawl() -> Any:
    for spider in (First, Second):
        yield runner.crawl(spider)


def main() -> None:
    from twisted.internet import reactor

    loop: Any = reactor
    crawl().addBoth(lambda _: loop.stop())
    loop.run()


main()
sys.exit(runner.bootstrap_failed)  # as `scrapy crawl` does
