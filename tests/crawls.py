"""Crawls of small spiders, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

JOB = "JOBDIR=job"

RUN = """
import json, sys
from scrapy.crawler import CrawlerProcess
from scrapy.settings import Settings
import spiders
settings = Settings()
settings.setdict(dict(p.split("=", 1) for p in sys.argv[3:]), "cmdline")
process = CrawlerProcess(settings)
spider = getattr(spiders, sys.argv[1])
crawler = process.create_crawler(spider)
process.crawl(crawler, start_urls=sys.argv[2].split())
process.start()
json.dump(dict(crawler.stats.get_stats()), open("stats.json", "w"), default=str)
"""


@dataclass
class Site:
    """A site, and a folder in which crawls of it run."""

    folder: Path
    base: str
    requested: list[str]

    def start(
        self,
        spider: str,
        *settings: str,
        starts: tuple[str, ...] = ("/",),
        before: str = "",
    ) -> subprocess.Popen[str]:
        values = ['ADDONS={"bloomdupe.Addon": 500}', "TELNETCONSOLE_ENABLED=0"]
        values += ["REMOTE_CONTROL_ENABLED=0", "RETRY_ENABLED=0", *settings]
        path = [str(self.folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        urls = " ".join(self.base + start for start in starts)
        return subprocess.Popen(
            [sys.executable, "-c", before + RUN, spider, urls, *values],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            stderr=subprocess.PIPE,
            text=True,
        )

    def crawl(
        self, spider: str, *settings: str, starts: tuple[str, ...] = ("/",)
    ) -> dict[str, Any]:
        """Run a crawl to its end; return its stats and, as ``log``, its log."""
        process = self.start(spider, *settings, starts=starts)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0, log
        stats: dict[str, Any] = json.loads((self.folder / "stats.json").read_text())
        return {**stats, "log": log}

    def take(self) -> list[str]:
        """Return what was requested since the last time, in order."""
        taken = list(self.requested)
        self.requested.clear()
        return taken
