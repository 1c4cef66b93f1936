"""A job that does not run here: its requests, its failures, its figures.

``on_disk`` is a JOBDIR and ``on_redis`` a crawl that several workers share.
``overview`` and ``selection`` need no Scrapy, and read a running crawl's store, too.
"""
