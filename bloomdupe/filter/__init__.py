"""Seen or not: bytes in, yes or no out.

``bloom`` is the filter, made of ``contents`` and ``layer``; ``redis_filter`` is a
filter that a URL names. ``parameters`` are checked once; ``sizing`` and ``hashing`` are
arithmetic.
Nothing here knows Scrapy. The blocks are kept in ``store``; ``frontier``,
``crawl`` and ``cli`` use this package.
"""
