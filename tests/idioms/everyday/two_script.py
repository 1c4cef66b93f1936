"""A script that runs two crawlers in one process."""

from __future__ import annotations

import sys

from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

from everyday.processes import First, Second

process = CrawlerProcess(get_project_settings())
process.crawl(First)
process.crawl(Second)
process.start()
sys.exit(process.bootstrap_failed)  # as `scrapy crawl` does
