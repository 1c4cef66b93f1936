"""What is owed: bytes in, bytes out.

``frontier`` keeps the requests that are pending or leased, ``slot_queue`` those of
one slot, ``later`` those that wait for a point in time, ``rotation`` says which slot is
next, ``rank`` which request within it.
Nothing in here knows Scrapy. It uses ``filter`` and ``store``; ``rescue`` and
``crawl`` come in.
"""
