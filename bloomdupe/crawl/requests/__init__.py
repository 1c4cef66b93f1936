"""A request as bytes, and the identity of a request.

``serializer`` writes and reads requests. ``layout`` holds the numbers of their parts
and needs no Scrapy, so that the command line starts quickly. Used by all of ``crawl``
and by ``jobs`` and ``moving``.
"""
