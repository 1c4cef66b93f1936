"""Monitoring: shows a job from outside, in a terminal or on a page.

``top`` shows a view of a job in a terminal, ``report`` as a page with charts. ``cli``
uses this package; it uses ``jobs`` and ``crawl``, and the packages below them.
"""
