"""Duplicate links, dropped where the spider yields them.

``link_filter`` is a spider middleware, ``known_urls`` and ``fingerprint`` make it
fast. What has been seen it asks through a small protocol, so it knows neither
scheduler nor store. ``addon`` and ``crawl`` come in.
"""
