"""A pipeline for your project that is crash-safe: pages in an SQLite database."""

from __future__ import annotations

import sqlite3
from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.exceptions import NotConfigured
from w3lib.url import canonicalize_url

from bloomdupe.signals import checkpoint
from crawler.items import Page

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from typing_extensions import Self

__all__ = ["SqlitePipeline"]

_NAMES = ", ".join(field.name for field in fields(Page))
_MARKS = ", ".join("?" for _ in ("page", *fields(Page)))
_CREATE = f"CREATE TABLE IF NOT EXISTS pages (page PRIMARY KEY, {_NAMES})"
_REPLACE = f"REPLACE INTO pages (page, {_NAMES}) VALUES ({_MARKS})"  # noqa: S608 - our names


class SqlitePipeline:
    """Collects pages and writes them when the crawl makes a checkpoint.

    ``ITEM_PIPELINES = {"crawler.sqlite.SqlitePipeline": 300}``; the setting
    ``SQLITE_FILE`` names the database (``pages.sqlite`` in ``JOBDIR`` by default).

    Rows are durable before the checkpoint counts their requests as done, so no row is
    lost. If a crash comes between, the rows are written again. They replace the old
    rows by their primary key, the URL in its canonical form, so no row is there twice.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._rows: list[tuple[object, ...]] = []

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the pipeline of a crawl."""
        file = crawler.settings["SQLITE_FILE"]
        if not file and not crawler.settings["JOBDIR"]:
            raise NotConfigured("SQLITE_FILE or JOBDIR must be set")
        pipeline = cls(Path(file or Path(crawler.settings["JOBDIR"], "pages.sqlite")))
        crawler.signals.connect(pipeline.flush, checkpoint)
        return pipeline

    def process_item(self, item: object, _spider: object = None) -> object:
        """Collect a page."""
        if isinstance(item, Page):
            # After a crash another spelling of a URL may be found first.
            self._rows.append((canonicalize_url(item.url), *astuple(item)))
        return item

    def flush(self) -> None:
        """Write the collected rows; the checkpoint follows when this returns."""
        if not self._rows:
            return
        connection = sqlite3.connect(self._file)
        try:
            # Without it, a commit does not survive a power cut.
            connection.execute("PRAGMA synchronous = FULL")
            with connection:
                connection.execute(_CREATE)
                connection.executemany(_REPLACE, self._rows)
        finally:
            connection.close()
        self._rows.clear()
