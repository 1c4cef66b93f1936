"""State of a crawl that survives besides its requests.

Cookies, ``spider.state``, delays and limits of slots, failed requests, items of
``Spider.start()``.
"""
