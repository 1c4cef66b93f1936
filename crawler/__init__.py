"""A Scrapy project that crawls whole sites with bloomdupe.

``scrapy crawl site -a url=https://example.com/`` crawls a site; without ``url`` it
crawls the sample site that it serves itself. Stop it at any time: the same command
continues it.
"""
