"""An extension that keeps memory for every response, under a limit of the process."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy import signals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

MORE = int(os.environ.get("HUNGRY_BYTES", "0"))
"""Bytes of address space that the crawl may take once it has begun."""
EACH = 1 << 18


class Hungry:
    """Lets a crawl run out of memory after some pages, wherever it happens to be."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Hungry:
        """Made by Scrapy."""
        hungry = cls()
        crawler.signals.connect(hungry.eat, signals.response_received)
        return hungry

    def eat(self) -> None:
        """Take some more."""
        if not self._kept:
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
            limit = pages * resource.getpagesize() + MORE
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        with contextlib.suppress(MemoryError):  # it strikes other code
            for size in (EACH, EACH // 8, EACH // 64):
                self._kept.append(bytes(size))
