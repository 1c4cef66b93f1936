"""A small site, and a folder in which crawls of it run, each in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from support.forks import forks

if TYPE_CHECKING:
    from pathlib import Path

JOB = "JOBDIR=job"

PAGES = {
    "/": "".join(f"<a href='/{name}'>x</a>" for name in "abcdef"),
    **{f"/{name}": f"<a href='/{name}1'>x</a><a href='/'>y</a>" for name in "abcdef"},
    **{f"/{name}1": "<a href='/a'>x</a>" for name in "abcdef"},
}

RUN = """
import json, sys
from scrapy import crawler
from scrapy.settings import Settings
import spiders
settings = Settings()
settings.setdict(dict(p.split("=", 1) for p in sys.argv[3:]), "cmdline")
reactorless = not settings.getbool("TWISTED_REACTOR_ENABLED", True)
kind = crawler.AsyncCrawlerProcess if reactorless else crawler.CrawlerProcess
process = kind(settings)
spider = getattr(spiders, sys.argv[1])
crawler = process.create_crawler(spider)
process.crawl(crawler, start_urls=sys.argv[2].split())
process.start()
json.dump(dict(crawler.stats.get_stats()), open("stats.json", "w"), default=str)
if settings.getbool("EXIT_AS_SCRAPY_DOES"):
    sys.exit(process.bootstrap_failed)
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
        """Start a crawl in an interpreter of its own."""
        path = [str(self.folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        arguments = self._arguments(spider, settings, starts)
        return subprocess.Popen(
            [sys.executable, "-c", before + RUN, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            stderr=subprocess.PIPE,
            text=True,
        )

    def crawl(
        self,
        spider: str,
        *settings: str,
        starts: tuple[str, ...] = ("/",),
        before: str = "",
    ) -> dict[str, Any]:
        """Run a crawl to its end; return its stats and, as ``log``, its log."""
        script, out = self.folder / "run.py", self.folder / "run.log"
        script.write_text(before + RUN)
        task = {
            "folder": str(self.folder),
            "environment": dict(os.environ),
            "log": str(out),
            "command": [str(script), *self._arguments(spider, settings, starts)],
        }
        status, late = forks().run(task, lambda _: None)
        log = out.read_text()
        assert not late, log
        assert status == 0, log
        stats: dict[str, Any] = json.loads((self.folder / "stats.json").read_text())
        return {**stats, "log": log}

    def _arguments(
        self, spider: str, settings: tuple[str, ...], starts: tuple[str, ...]
    ) -> list[str]:
        values = ['ADDONS={"bloomdupe.Addon": 500}', "TELNETCONSOLE_ENABLED=0"]
        values += ["REMOTE_CONTROL_ENABLED=0", "RETRY_ENABLED=0", *settings]
        return [spider, " ".join(self.base + start for start in starts), *values]

    def take(self) -> list[str]:
        """Return what was requested since the last time, in order."""
        taken = list(self.requested)
        self.requested.clear()
        return taken
