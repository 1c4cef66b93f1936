"""Pending requests: bytes in, bytes out.

``frontier`` keeps the requests that are pending or in flight, ``slot_queue`` the
requests of one slot, ``delayed`` the delayed requests. ``rotation``
chooses the next slot. ``pending_requests`` reads the requests of a store.
``held_frontier`` has the partitions that a worker owns on Redis, each with its
frontier. Nothing in here knows Scrapy. It uses ``filter``
and ``store``; ``cli`` and ``crawl`` import it.
"""
