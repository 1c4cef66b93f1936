"""Signals of bloomdupe; connect to them as to Scrapy's own."""

from __future__ import annotations

__all__ = ["checkpoint"]

checkpoint = object()
"""Sent before each commit, with ``spider``, and once more when the crawl closes, after
the pipelines' ``close_spider``.

A pipeline that has buffered what it was given writes it now, and makes it durable.
When the receiver has returned, the commit makes the requests count as done that these
items came from. If it raises, nothing is committed and the crawl stops. So everything
is written at least once: what was written but not committed, because of a crash in
between, comes again. With a key for which the second time replaces the first, it is
exactly once. Receivers cannot be coroutines or return Deferreds.
"""
