"""Pending requests: bytes in, bytes out.

``frontier`` takes requests in and hands them out, ``partition`` keeps them in a store;
``slot_queue`` has the requests of one slot, ``delayed`` the delayed requests.
``rotation`` chooses the next slot. ``pending_requests`` reads the requests of a store.
``held_frontier`` is the frontier of a worker, which owns some partitions on Redis.
Nothing in here knows Scrapy. It uses ``filter`` and ``store``; ``cli`` and ``crawl``
import it.
"""
