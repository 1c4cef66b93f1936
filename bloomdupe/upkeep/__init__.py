"""What is done to a job by hand, while it does not run: asking, adding, taking out.

``overview`` and ``summary`` say what is in a store, ``selection`` which requests are
meant. They need no Scrapy and read a running crawl's store, too. Uses ``crawl`` and the
rooms below it; ``cli`` comes in.
"""
