"""What is done to a job by hand: asking, adding, taking out, collecting its output.

``overview`` and ``summary`` say what is in a store, ``selection`` which requests are
meant. They need no Scrapy and read a running crawl's store, too. ``collecting`` takes
the output of workers that share a crawl from Redis into files, a ``collection``;
``shared_overview`` and ``shared_requests`` say how such a crawl stands. All else is for
a job that does not run. Uses ``shared``, ``crawl`` and the rooms below it; ``cli``
comes in.
"""
