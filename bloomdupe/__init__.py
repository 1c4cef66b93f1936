"""Crawls that survive anything: a Bloom filter in LMDB pages, for Scrapy and beyond.

The names below are loaded when first used, so that ``import bloomdupe`` imports
neither Scrapy nor Redis.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomdupe.addon import Addon
    from bloomdupe.bloom import BloomFilter
    from bloomdupe.dupefilter import BloomDupeFilter
    from bloomdupe.errors import BloomDupeError
    from bloomdupe.link_filter import LinkFilter, new_links
    from bloomdupe.scheduler import FrontierScheduler

__version__ = "0.1.0"

__all__ = [
    "Addon",
    "BloomDupeError",
    "BloomDupeFilter",
    "BloomFilter",
    "FrontierScheduler",
    "LinkFilter",
    "new_links",
]

_HOMES = {
    "Addon": "bloomdupe.addon",
    "BloomDupeError": "bloomdupe.errors",
    "BloomDupeFilter": "bloomdupe.dupefilter",
    "BloomFilter": "bloomdupe.bloom",
    "FrontierScheduler": "bloomdupe.scheduler",
    "LinkFilter": "bloomdupe.link_filter",
    "new_links": "bloomdupe.link_filter",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
