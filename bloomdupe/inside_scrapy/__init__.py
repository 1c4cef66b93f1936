"""Every private name of Scrapy that is read or replaced, and nothing else.

Each is checked when a crawl opens, and :class:`~bloomdupe.errors.EngineError` names
the one that is missing. Uses ``errors`` only; ``crawl``, ``links`` and ``feeds`` come
in.
"""
