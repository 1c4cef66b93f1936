"""Settings of the crawler project.

The spider sets a few more when it knows its hosts: JOBDIR and FEEDS (``job.py``), and
full speed if they are on this machine (``speed.py``). ``-s NAME=VALUE`` wins over all.
"""

from __future__ import annotations

from typing import Any

BOT_NAME = "crawler"
SPIDER_MODULES = ["crawler.spiders"]
NEWSPIDER_MODULE = "crawler.spiders"
# Scrapy's `crawl`, with one-line errors and an exit status that tells the truth.
COMMANDS_MODULE = "crawler.commands"

# The one line that makes a crawl remember what it has seen.
ADDONS: dict[str, int] = {"bloomdupe.Addon": 500}

# Manners. Name yourself: -s USER_AGENT="mybot (+https://my.site/bot)".
USER_AGENT = "bloomdupe-crawler (Scrapy; obeys robots.txt)"
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 2
DOWNLOAD_DELAY = 0.5  # seconds between two requests to a host, at least
AUTOTHROTTLE_ENABLED = True  # slower when the host is slow
AUTOTHROTTLE_START_DELAY = 1.0
AUTOTHROTTLE_MAX_DELAY = 30.0

# Every answer is a Page, whatever its status; Scrapy still retries and redirects first.
HTTPERROR_ALLOW_ALL = True
# A page is what its URL answers, not what a refresh in it leads to.
METAREFRESH_ENABLED = False
# Cookies are not part of a job: a resumed crawl would see another site than before.
COOKIES_ENABLED = False

DOWNLOADER_MIDDLEWARES: dict[str, Any] = {
    # Its rule is "the domain and all below it"; ours also knows ports, allow and deny.
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    "crawler.scope.ScopeMiddleware": 50,
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "crawler.robots.RobotsMiddleware": 100,
}

# Nobody needs a port that steers the crawl.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False

LOG_LEVEL = "INFO"
