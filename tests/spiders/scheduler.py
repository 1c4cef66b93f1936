"""Spiders of every kind, for the scheduler; and faults of the machine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import scrapy
from scrapy.exceptions import NotConfigured
from support.components import OfCrawler

import bloomdupe.crawl.progress.watch
from bloomdupe.store.files import lock_owner
from spiders.follow import Follow


def sample_often() -> None:
    """Let the watch over the crawl sample ten times a second."""
    bloomdupe.crawl.progress.watch.SAMPLE_INTERVAL = 0.1


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


class Forgetful(Follow):
    """There is no memory for the page /c, the first time."""

    name = "forgetful"
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {"spiders.scheduler.NoMemory": 1}}

    def parse(self, response: Any) -> Any:
        yield from response.follow_all(css="a", errback=self.failed)

    def failed(self, failure: Any) -> Any:
        self.logger.info("took care of it")


class NoMemory(OfCrawler):
    def process_request(self, request: Any, spider: Any = None) -> Any:
        if self.crawler.settings["FAIL"] and request.url.endswith("/c"):
            raise MemoryError


class Renamed(Follow):
    name = "renamed"
    custom_settings = {"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1}

    def parse(self, response: Any) -> Any:
        yield from response.follow_all(css="a", callback=self.parse_more)

    def parse_more(self, response: Any) -> Any:
        pass


class RenamedLater(scrapy.Spider):
    name = "renamed"
