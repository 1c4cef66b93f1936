"""A Ctrl-C while the crawl is opened."""

from __future__ import annotations

import signal
from pathlib import Path

from scrapy.dupefilters import RFPDupeFilter


class CtrlC(RFPDupeFilter):
    def open(self) -> None:
        done = Path("interrupted")
        if not done.exists():
            done.touch()
            signal.raise_signal(signal.SIGINT)
