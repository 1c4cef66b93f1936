"""Scrapy's side of one crawl: scheduler, duplicate filter, checkpoint.

``scheduler`` and ``dupefilter`` are what Scrapy calls, ``checkpoint`` is the one
transaction that makes everything durable consistently. What Scrapy does not show is
asked of ``inside_scrapy``. Uses every room below; ``addon`` and ``cli`` come in.
"""
