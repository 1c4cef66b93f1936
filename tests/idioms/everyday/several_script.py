"""A script that runs two crawlers at a time in one process, and then another one."""

from __future__ import annotations

from typing import Any

from scrapy.crawler import CrawlerRunner
from scrapy.utils.log import configure_logging
from scrapy.utils.project import get_project_settings
from scrapy.utils.reactor import install_reactor
from twisted.internet.defer import gatherResults, inlineCallbacks
from twisted.internet.task import react

from everyday.processes import First, Second, Third


@inlineCallbacks
def crawl(_: object) -> Any:
    settings = get_project_settings()
    configure_logging(settings)
    runner = CrawlerRunner(settings)
    yield gatherResults([runner.crawl(First), runner.crawl(Second)])
    yield runner.crawl(Third)
    raise SystemExit(runner.bootstrap_failed)  # as `scrapy crawl` does


install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
react(crawl)
