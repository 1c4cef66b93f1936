"""A crawl that several workers share: Scrapy's side of the frontier on Redis.

The entry is :class:`bloomdupe.shared.scheduler.SharedScheduler`, which the add-on puts
in the SCHEDULER slot when ``BLOOMDUPE_REDIS_URL`` is set. This room uses the parts of
``crawl`` that are the same on one machine: requests as bytes, their names, and stopping
a crawl. It is built on ``redis`` as ``crawl`` is built on ``frontier``.
"""
