"""Links: skips duplicate links where the spider yields them.

``link_filter`` is a spider middleware; ``fingerprint`` makes it fast.
It asks for seen URLs through a small protocol, so it knows neither scheduler nor store.
``addon`` and ``crawl`` use this package.
"""
