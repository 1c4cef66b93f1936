"""Crawls that survive anything: a Bloom filter in LMDB pages, for Scrapy and beyond.

The names below are loaded when first used, so that ``import bloomdupe`` imports
neither Scrapy nor Redis.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if sys.platform in ("win32", "cygwin"):
    raise ImportError(
        "bloomdupe does not run on Windows: it needs the locks and files of Linux or"
        " macOS"
    )

from bloomdupe._version import __version__ as __version__

if TYPE_CHECKING:
    from bloomdupe.addon import Addon as Addon
    from bloomdupe.crawl.dupefilter import BloomDupeFilter as BloomDupeFilter
    from bloomdupe.crawl.scheduler import FrontierScheduler as FrontierScheduler
    from bloomdupe.errors import BloomDupeError as BloomDupeError
    from bloomdupe.feeds.exporter import FeedExporter as FeedExporter
    from bloomdupe.feeds.media import CompleteFiles as CompleteFiles
    from bloomdupe.filter.bloom import BloomFilter as BloomFilter
    from bloomdupe.links.link_filter import LinkFilter as LinkFilter

_HOMES = {
    "Addon": "bloomdupe.addon",
    "BloomDupeError": "bloomdupe.errors",
    "BloomDupeFilter": "bloomdupe.crawl.dupefilter",
    "BloomFilter": "bloomdupe.filter.bloom",
    "FeedExporter": "bloomdupe.feeds.exporter",
    "FrontierScheduler": "bloomdupe.crawl.scheduler",
    "LinkFilter": "bloomdupe.links.link_filter",
    "CompleteFiles": "bloomdupe.feeds.media",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # from now on Python finds it without this call
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
