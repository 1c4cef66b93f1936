"""Signals of bloomdupe; connect to them as to Scrapy's own."""

from __future__ import annotations

__all__ = ["checkpoint"]

checkpoint = object()
"""Sent before each commit, with ``spider``, and once more when the crawl closes, after
the pipelines' ``close_spider``.

A pipeline that buffers items writes them now, and makes them durable. When the receiver
has returned, the commit marks the requests of these items as done. If a receiver raises
an exception, nothing is committed and the crawl stops. So each item is written at least
once: items that were written but not committed, because of a crash in between, come
again. With a key by which the second write replaces the first, it is exactly once.
Receivers cannot be coroutines or return Deferreds.
"""
