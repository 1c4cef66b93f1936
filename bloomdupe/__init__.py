"""Crawls that survive anything: a Bloom filter in LMDB pages, for Scrapy and beyond.

The names below are loaded when first used, so that ``import bloomdupe`` imports
neither Scrapy nor Redis.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from bloomdupe._version import __version__ as __version__

if TYPE_CHECKING:
    from bloomdupe.addon import Addon as Addon
    from bloomdupe.crawl.dupefilter import BloomDupeFilter as BloomDupeFilter
    from bloomdupe.crawl.scheduler import FrontierScheduler as FrontierScheduler
    from bloomdupe.errors import BloomDupeError as BloomDupeError
    from bloomdupe.filter.bloom import BloomFilter as BloomFilter
    from bloomdupe.links.link_filter import LinkFilter as LinkFilter
    from bloomdupe.links.link_filter import new_links as new_links
    from bloomdupe.shared.scheduler import SharedScheduler as SharedScheduler

_HOMES = {
    "Addon": "bloomdupe.addon",
    "BloomDupeError": "bloomdupe.errors",
    "BloomDupeFilter": "bloomdupe.crawl.dupefilter",
    "BloomFilter": "bloomdupe.filter.bloom",
    "FrontierScheduler": "bloomdupe.crawl.scheduler",
    "LinkFilter": "bloomdupe.links.link_filter",
    "SharedScheduler": "bloomdupe.shared.scheduler",
    "new_links": "bloomdupe.links.link_filter",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # from now on it is found without asking here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
