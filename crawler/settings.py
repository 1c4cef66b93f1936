"""Settings of the crawler project.

The spider sets a few more when it knows its hosts: JOBDIR and FEEDS (``job.py``), and
full speed if they are on this machine (``speed.py``). ``-s NAME=VALUE`` wins over all.
"""

from __future__ import annotations

from typing import Any

BOT_NAME = "crawler"
SPIDER_MODULES = ["crawler.spiders"]
NEWSPIDER_MODULE = "crawler.spiders"
# Scrapy's `crawl`, with one-line errors and an exit status that shows a failure.
COMMANDS_MODULE = "crawler.commands"

# The only line that bloomdupe needs.
ADDONS: dict[str, int] = {"bloomdupe.Addon": 500}

# Politeness. Name yourself: -s USER_AGENT="mybot (+https://my.site/bot)".
USER_AGENT = "bloomdupe-crawler (Scrapy; obeys robots.txt)"
ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 2
DOWNLOAD_DELAY = 0.5  # seconds between two requests to a host, at least
AUTOTHROTTLE_ENABLED = True  # slower when the host is slow
AUTOTHROTTLE_START_DELAY = 1.0
AUTOTHROTTLE_MAX_DELAY = 30.0

# Every answer is a Page, with any status; Scrapy still retries and redirects first.
HTTPERROR_ALLOW_ALL = True
# A page is the answer of its own URL, not of the URL in its refresh element.
METAREFRESH_ENABLED = False
# Cookies are not part of a job: a resumed crawl would see another site than before.
COOKIES_ENABLED = False

DOWNLOADER_MIDDLEWARES: dict[str, Any] = {
    # Its rule is "the domain and all below it"; Scope also has ports, allow and deny.
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    "crawler.scope.ScopeMiddleware": 50,
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "crawler.robots.RobotsMiddleware": 100,
}

# The crawl needs no ports for remote control.
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False

LOG_LEVEL = "INFO"
