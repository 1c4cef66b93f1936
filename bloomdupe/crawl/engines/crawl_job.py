"""Job: a crawl that may take several runs, its store, and the order of its requests."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from bloomdupe.errors import (
    SettingError,
    StoreError,
    StoreLockedError,
    StoreMismatchError,
)
from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.frontier.slot_queue import QueueOrder
from bloomdupe.printable import logger_of, near
from bloomdupe.settings import JobSettings
from bloomdupe.store.files import holds_store, open_regular, owner_of
from bloomdupe.store.lmdb.lmdb_store import Directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

logger = logger_of(__name__)

SETTING_OF = {
    "capacity": "BLOOMDUPE_EXPECTED_URLS",
    "fpp": "BLOOMDUPE_FPP",
    "exact": "BLOOMDUPE_EXACT",
    "expected_urls": "BLOOMDUPE_EXPECTED_URLS",
    "feeds": "FEEDS",
    "fingerprinter": "REQUEST_FINGERPRINTER_CLASS",
}
"""Name of the setting for each parameter of a store, but for the spider."""
PATIENCE = 10.0
"""Seconds for which a crawl waits for a command that has its job."""
PAUSE = 0.02
"""Seconds between two attempts."""


@dataclass(frozen=True)
class CrawlJob:
    """Settings and identity of a crawl. All its runs must agree on them."""

    settings: JobSettings
    spider: str
    fingerprinter: str

    @classmethod
    def of(cls, spider: Spider, settings: BaseSettings) -> CrawlJob:
        """Read the job of a spider; raise :class:`SettingError` for a bad setting."""
        fingerprinter = load_object(settings["REQUEST_FINGERPRINTER_CLASS"])
        read = JobSettings.read(settings)
        _check_together(read)
        return cls(read, spider.name, global_object_name(fingerprinter))

    @property
    def identity(self) -> dict[str, Any]:
        """Identity of the job in the store, besides the filter's parameters."""
        return {
            "spider": self.spider,
            "fingerprinter": self.fingerprinter,
            "exact": self.settings.exact.value,
        }

    @contextmanager
    def by_settings(self) -> Iterator[None]:
        """Call parameters by the names of the settings that they come from.

        Errors about the store say how to name another place.
        """
        place, another = "JOBDIR", 'JOBDIR = "crawls/%(spider)s" is one for each spider'
        if self.settings.is_shared:
            place = "BLOOMDUPE_REDIS_URL"
            another = f"another name in {place}"
        try:
            yield
        except (StoreMismatchError, SettingError) as error:
            name = {**SETTING_OF, "spider": place}.get(error.parameter)
            if name is None:
                raise
            text = f"{name}: {error}"
            if isinstance(error, StoreMismatchError):
                text += f" ({another})"
            raise type(error)(text, error.parameter) from error

    def open_filter(self) -> BloomFilter:
        """Open or create the filter, in memory if there is no JOBDIR.

        Raises the error that prevents the crawl, before any write.
        """
        settings, directory = self.settings, self.settings.directory
        with self.by_settings():
            if directory is None:
                return BloomFilter(
                    settings.capacity, settings.fpp, exact=settings.exact.all
                )
            _refuse_misplaced(directory)
            return _when_free(
                directory,
                lambda: BloomFilter.open(
                    directory,
                    settings.capacity,
                    settings.fpp,
                    exact=settings.exact.all,
                    identity=self.identity,
                    memory=settings.filter_memory,
                ),
            )

    def check_new(self, crawler: Crawler) -> None:
        """Refuse a new job, before it is made, that could not go on."""
        directory = self.settings.directory
        if directory is not None and not Directory(directory).exists():
            refuse_queue_of_scrapy(directory.parent, self.spider)
            left = StoredFeeds({}, directory, resumed=False)
            FeedExporter.of(crawler).check(left)


def _check_together(settings: JobSettings) -> None:
    """Refuse settings that exclude each other."""
    redis = "BLOOMDUPE_REDIS_URL" if settings.is_shared else None
    wait = None if settings.wait is None else "BLOOMDUPE_WAIT"
    always = settings.start_requests == "always"
    for is_given, one, other in (
        (settings.stay, "BLOOMDUPE_STAY", wait),
        (settings.directory is not None, "JOBDIR", redis),
        (settings.filter_memory is not None, "BLOOMDUPE_FILTER_MEMORY", redis),
        (always, 'BLOOMDUPE_START_REQUESTS = "always"', redis),
    ):
        if is_given and other is not None:
            raise SettingError(f"{one} does not work with {other}: unset one of them")
    if settings.stay and not settings.durable:
        raise SettingError(
            "BLOOMDUPE_STAY needs JOBDIR or BLOOMDUPE_REDIS_URL: nothing can add URLs"
            " to a crawl in memory"
        )


def _when_free(directory: Path, opened: Callable[[], BloomFilter]) -> BloomFilter:
    """Open the store of a job, as soon as a command that changes the job has ended.

    A command has the job for a moment, and sends no heartbeat, unlike a crawl.
    Raises :class:`~bloomdupe.errors.StoreLockedError` if another crawl has the job, or
    if the command goes on for long.
    """
    end, reported = time.monotonic() + PATIENCE, False
    while True:
        try:
            return opened()
        except StoreLockedError:
            owner = owner_of(directory)
            runs = owner is not None and owner.heartbeat is not None
            if runs or time.monotonic() > end:
                raise
        if not reported:
            reported = True
            logger.info(
                "Waiting for another process that has the job in %(directory)s",
                {"directory": directory},
            )
        time.sleep(PAUSE)


def _refuse_misplaced(directory: Path) -> None:
    """Refuse a JOBDIR that is itself a store: another job would begin inside it."""
    jobdir = directory.parent
    if holds_store(jobdir):
        raise StoreError(
            f"JOBDIR: {jobdir} is itself a store, and the store of a job is"
            f" {directory}: move all files of {jobdir} into {directory}, or name"
            " another JOBDIR"
        )


def refuse_queue_of_scrapy(jobdir: Path, spider: str) -> None:
    """Refuse a job with pending requests that only Scrapy's scheduler can see."""
    active, pending = jobdir / "requests.queue" / "active.json", None
    with suppress(FileNotFoundError), open(open_regular(active), "rb") as file:
        pending = json.load(file)
    if pending:
        raise StoreMismatchError(
            f"JOBDIR: requests are pending in {active.parent} that only Scrapy's"
            f" own scheduler can see: `bloomdupe import {near(str(jobdir))} --spider"
            f" {spider}` imports them; or give the new crawl another JOBDIR"
        )


def queue_order(settings: BaseSettings, *, durable: bool) -> QueueOrder:
    """Return the order of the queue classes that Scrapy would use."""
    kind = "DISK" if durable else "MEMORY"
    queue = settings[f"SCHEDULER_{kind}_QUEUE"]
    start_queue = settings[f"SCHEDULER_START_{kind}_QUEUE"]
    # Without a queue of their own, start requests are like all others.
    fifo, start_fifo = _is_fifo(queue), _is_fifo(start_queue or queue)
    return QueueOrder(fifo, start_fifo, starts_apart=bool(start_queue))


def _is_fifo(name: str) -> bool:
    """Whether a queue class of Scrapy takes the oldest request first."""
    return "fifo" in load_object(name).__name__.lower() or "fifo" in str(name).lower()
