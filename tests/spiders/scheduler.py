"""Spiders of every kind, for the scheduler; and faults of the machine."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import scrapy
from scrapy.exceptions import NotConfigured

import bloomdupe.crawl.progress.watch
from bloomdupe.store.files import lock_owner
from spiders.follow import Follow


def sample_often() -> None:
    """Let the watch over the crawl sample ten times a second."""
    bloomdupe.crawl.progress.watch.SAMPLE_INTERVAL = 0.1


class Gathers:
    """Lets no request pass before there are four."""

    def __init__(self) -> None:
        self.inside, self.all_there = 0, asyncio.Event()

    async def process_request(self, request: Any, spider: Any = None) -> None:
        self.inside += 1
        if self.inside == 4:
            self.all_there.set()
        await self.all_there.wait()


class Command(logging.Handler):
    """Has the job, as a command has it, until the crawl logs that it waits."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = lock_owner(Path("job/bloomdupe"))
        logging.getLogger().addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if "Waiting for another process" in record.getMessage():
            self._lock.close()

    @classmethod
    def from_crawler(cls, _: Any) -> Any:
        """Begin when the job was found free, and before the crawl opens it."""
        cls()
        raise NotConfigured


class Renamed(Follow):
    name = "renamed"
    custom_settings = {"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}

    def parse(self, response: Any) -> Any:
        yield from response.follow_all(css="a", callback=self.parse_more)

    def parse_more(self, response: Any) -> Any:
        pass


class RenamedLater(scrapy.Spider):
    name = "renamed"
