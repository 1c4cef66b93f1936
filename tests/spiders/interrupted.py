"""An extension that interrupts its own crawl."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from scrapy import signals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


def interrupted_at(answers: int) -> tuple[str, ...]:
    """Return options of a crawl that presses Ctrl-C after so many answers."""
    extensions = f'{{"{Interrupted.__module__}.Interrupted": 0}}'
    return ("-s", f"INTERRUPTED_AT={answers}", "-s", f"EXTENSIONS={extensions}")


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
