"""A request as bytes.

``serializer`` writes and reads requests, with ``callbacks``, ``values`` and ``objects``
for what they carry. ``layout`` needs no Scrapy, so that the command line starts
quickly.
"""
