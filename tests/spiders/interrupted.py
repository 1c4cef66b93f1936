"""Extensions that interrupt or pause their own crawl."""

from __future__ import annotations

import os
import signal
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler


def interrupted_at(answers: int) -> tuple[str, ...]:
    """Return options of a crawl that presses Ctrl-C after so many answers."""
    return ("-s", f"INTERRUPTED_AT={answers}", *_with(Interrupted))


def paused_at(pages: str) -> tuple[str, ...]:
    """Return options of a crawl of the ``site`` spider that pauses for good.

    It does so when the job has so many pages, and goes on writing checkpoints.
    """
    return ("-s", f"PAUSED_AT={pages}", *_with(Paused))


def _with(extension: type) -> tuple[str, ...]:
    name = f"{extension.__module__}.{extension.__qualname__}"
    return ("-s", f'EXTENSIONS={{"{name}": 0}}')


class Interrupted:
    """Presses Ctrl-C; ``INTERRUPTED_AT`` says after how many answers."""

    def __init__(self, crawler: Crawler) -> None:
        self._left = crawler.settings.getint("INTERRUPTED_AT")
        crawler.signals.connect(self.count, signals.response_received)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Interrupted:
        return cls(crawler)

    def count(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGINT)


class Paused:
    """Pauses the engine; ``PAUSED_AT`` says at how many pages of the job."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._limit = crawler.settings.getint("PAUSED_AT")
        crawler.signals.connect(self.look, signals.item_scraped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Paused:
        return cls(crawler)

    def look(self, spider: Any) -> None:
        if spider.state["pages"] >= self._limit:
            assert self._crawler.engine is not None
            self._crawler.engine.pause()
