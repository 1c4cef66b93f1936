"""The only room that reads or replaces private names of Scrapy.

Each name is checked when a crawl opens, and :class:`~bloomdupe.errors.EngineError`
tells which name is missing. Uses ``errors`` only; ``crawl``, ``links`` and ``feeds``
come in.
"""
