"""Output that is part of the checkpoint: every item is in its file exactly once.

``exporter`` replaces Scrapy's feed exporter. ``appended_feed`` turns items into lines,
and a ``journal`` keeps them until the file has them. All other feeds wait: ``delivery``
writes them when the crawl has finished. ``stored_feeds`` continues those of the last
run. ``media`` gives media pipelines the store in ``complete_files``. ``addon`` and
``crawl`` import it.
"""

from bloomdupe.feeds.exporter import FeedExporter

__all__ = ["FeedExporter"]
