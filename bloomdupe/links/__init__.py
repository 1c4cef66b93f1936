"""Links: skips duplicate links where the spider yields them.

``link_filter`` is a spider middleware; ``fingerprint`` makes it fast.
It is given what it asks for seen URLs, so it knows neither scheduler nor store.
``addon`` and ``crawl`` use this package.
"""
