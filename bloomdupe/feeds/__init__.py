"""Output that is part of the checkpoint: every item in its file exactly once.

``exporter`` stands in the place of Scrapy's feed exporter, ``contract`` says what
passes between it and a crawl. ``feed`` and ``format`` turn items into lines, ``draft``
works out what a commit makes of them, ``file`` holds what has been committed and
nothing else, ``record`` goes on with what the last run has left. ``spooled_feed`` and
``delivery`` are for storages that must have a file at once. Private names of Scrapy's
exporter are in ``inside_scrapy``. ``addon`` and ``crawl`` come in.
"""

from bloomdupe.feeds.exporter import FeedExporter

__all__ = ["FeedExporter"]
