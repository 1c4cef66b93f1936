"""Monitoring: shows a job from outside, in a terminal or on a page.

``view`` reads a store, also while a crawl runs, and does not disturb it. ``top`` shows
it in a terminal, ``report`` as a page with charts. ``shared_view``, ``shared_top`` and
``shared_report`` do the same for a crawl on Redis. They import optional packages when
they are used. ``cli`` uses this room; it uses ``jobs`` and ``crawl``, and the rooms
below them.
"""
