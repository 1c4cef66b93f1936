"""The only package that reads or replaces private names of Scrapy.

All names are in :mod:`~bloomdupe.inside_scrapy.private_names`, and are checked before
a crawl opens anything. Uses ``errors`` and ``printable`` only; ``moving``, ``jobs``,
``crawl``, ``links`` and ``feeds`` import it.
"""
