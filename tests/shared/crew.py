"""Workers of a shared crawl: real processes on a real Redis and a site of one's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from support.small_site import RUN

from bloomdupe.redis.shared_frontier import SharedFrontier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.redis_server import RedisServer

NAME = "crawl"
DEADLINE = 120
"""Seconds; only what hangs gets there."""


def graph(size: int, links: int = 5) -> dict[str, str]:
    """Return the pages of a site in which each can be reached from the first."""
    pages = {}
    for number in range(size):
        targets = {2 * number + 1, 2 * number + 2, *_others(number, size, links)}
        anchors = [f"<a href='/{n}'>x</a>" for n in sorted(targets) if n < size]
        pages[f"/{number}"] = "".join(anchors)
    return pages


def _others(number: int, size: int, links: int) -> set[int]:
    """Return pages other than the first: stock Scrapy fetches that once more."""
    return {1 + (number * 7919 + k * 104_729) % (size - 1) for k in range(links)}


class Worker:
    """A process that runs one spider to the end of the crawl."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = json.loads((self.folder / "stats.json").read_text())
        return stats

    @property
    def pages(self) -> int:
        found: int = self.stats.get("downloader/response_count", 0)
        return found

    @property
    def works(self) -> bool:
        """Whether it has joined the crawl."""
        return "This is worker" in self.log

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> Worker:
        """Wait until it ends, and see that it has finished."""
        assert self.process.wait(DEADLINE) == 0, self.log
        assert "Traceback" not in self.log, self.log
        assert self.stats["finish_reason"] == "finished"
        return self


class Crew:
    """Workers of one crawl, in folders of their own."""

    def __init__(
        self,
        folder: Path,
        base: str,
        redis: RedisServer,
        requested: list[str],
        *settings: str,
    ) -> None:
        self._folder = folder
        self._base = base
        self._redis = redis
        self._settings = settings
        self.requested = requested
        """What the site was asked for, in order."""
        self.workers: list[Worker] = []

    def hire(self, spider: str, *settings: str, shared: bool = True) -> Worker:
        """Start a worker; without ``shared`` it is stock Scrapy."""
        folder = self._folder / f"worker{len(self.workers)}"
        folder.mkdir()
        values = ["TELNETCONSOLE_ENABLED=0", "REMOTE_CONTROL_ENABLED=0"]
        values += ["LOG_LEVEL=INFO", "EXIT_AS_SCRAPY_DOES=1", *self._settings]
        if shared:
            values += [
                'ADDONS={"bloomdupe.Addon": 500}',
                f"BLOOMDUPE_REDIS_URL={self._redis.url(NAME)}",
                "BLOOMDUPE_EXPECTED_URLS=10000",
                "BLOOMDUPE_REDIS_PARTITIONS=8",
            ]
        values += settings
        path = [str(self._folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        with (folder / "log").open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-c", RUN, spider, self._base + "/0", *values],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
                stderr=file,
                text=True,
            )
        worker = Worker(process, folder)
        self.workers.append(worker)
        return worker

    def url(self, name: str) -> str:
        """Return the URL of a crawl on this Redis."""
        return self._redis.url(name)

    def stock(self, spider: str) -> tuple[Counter[str], Counter[str]]:
        """Let stock Scrapy do it; return the lines of its feed, and what it asked."""
        worker = self.hire(spider, shared=False).end()
        lines = (worker.folder / "items.jsonl").read_text().splitlines()
        return Counter(f"0 {line}\n" for line in lines), self.take()

    def take(self) -> Counter[str]:
        """Return what was asked for since the last time."""
        taken = Counter(self.requested)
        self.requested.clear()
        return taken

    def wait(self, until: Callable[[], bool]) -> None:
        """Wait for something, as long as anybody works."""
        end = time.monotonic() + DEADLINE
        while not until() and any(w.process.poll() is None for w in self.workers):
            assert time.monotonic() < end
            time.sleep(0.01)

    def dismiss(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGCONT)
                worker.kill()

    def items(self) -> Counter[str]:
        """Return what all of them have put out, as the lines stand in Redis."""
        with SharedFrontier.open(self._redis.url(NAME)) as frontier:
            assert frontier.finished
            return Counter(output.line.decode() for output in frontier.outputs())

    def collected(self) -> Counter[str]:
        """Let ``bloomdupe collect`` write the feed; return its lines."""
        command = [sys.executable, "-m", "bloomdupe.cli.main", "collect"]
        folder = self._folder / "collected"
        subprocess.run([*command, self._redis.url(NAME), str(folder)], check=True)
        lines = (folder / "items.jsonl").read_text().splitlines(keepends=True)
        return Counter(f"0 {line}" for line in lines)
