"""Output that is part of the checkpoint: every item is in its file exactly once.

``exporter`` replaces Scrapy's feed exporter; ``feed_job`` holds the types shared with a
crawl. ``feed`` and ``feed_format`` turn items into lines, ``draft`` computes the
content of the files after a commit, ``file`` writes only committed lines to a file,
``stored_feeds`` continues the feeds of the last run. ``spooled_feed`` and ``delivery``
are for storages that must have a file at once. ``shared_feed`` is a feed of workers,
which ``collect`` writes. ``media`` gives media pipelines the store in ``whole_files``.
Private names of Scrapy's exporter are in ``inside_scrapy``.
``addon``, ``crawl`` and ``moving`` come in.
"""

from bloomdupe.feeds.exporter import FeedExporter

__all__ = ["FeedExporter"]
