"""Seen or not: bytes in, yes or no out.

``bloom`` has the verbs of a filter, and ``contents`` what it keeps, in one ``layer`` or
more; ``redis_filter`` is a filter that a URL names. ``parameters`` are checked once;
``sizing`` and ``hashing`` are arithmetic.
Nothing here knows Scrapy. The blocks are kept in ``store``; ``frontier``,
``crawl`` and ``cli`` use this package.
"""
