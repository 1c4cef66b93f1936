"""Scrapy's side of a crawl: scheduler, duplicate filter, checkpoint.

Scrapy calls ``scheduler`` and ``dupefilter``. ``engines.checkpoint`` is the transaction
that makes all changes durable together. Access to Scrapy's internals goes through
``inside_scrapy``. Uses every package below it, and is used by ``addon`` and ``cli``.
"""
