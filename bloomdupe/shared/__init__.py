"""A crawl that several workers share: Scrapy's side of the frontier on Redis.

Whoever comes in wants :class:`bloomdupe.shared.scheduler.SharedScheduler`, which the
add-on puts in the SCHEDULER slot when ``BLOOMDUPE_REDIS_URL`` is set. This room stands
beside ``crawl``, from which it takes what is the same on one machine: requests as
bytes, what tells them apart, how a crawl is stopped. It is on ``redis`` as ``crawl`` is
on ``frontier``.
"""
