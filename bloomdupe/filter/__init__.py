"""Seen or not: bytes in, yes or no out.

``bloom`` is the filter, made of ``contents``, ``layer`` and ``exact``. ``opening``
finds its store; ``redis_filter`` is a filter that a URL names. ``info`` describes a
filter. ``parameters``, ``sizing`` and ``hashing`` are arithmetic.
Nothing here knows Scrapy. The pages are kept in ``store``; ``frontier``,
``crawl`` and ``cli`` use this room.
"""
