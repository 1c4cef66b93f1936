"""Real crawls of real servers, each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from w3lib.url import canonicalize_url

from crawler.sample_site import SampleSite, canonical_path
from support.forks import forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


ROOT = Path(__file__).parents[2]
PAGES = 100
"""Of the sample site."""
DEADLINE = 300.0  # seconds; only a broken test gets there


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until *condition* holds, as long as *process* lives."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def read_log(log: Path) -> Counter[tuple[int, str]]:
    """Count status and canonical path of the requests that a server has logged."""
    lines = log.read_text("ascii").splitlines() if log.exists() else []
    fields = (line.split(" ", 2) for line in lines)
    return Counter((int(status), canonical_path(uri)) for status, _, uri in fields)


def read_items(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def statuses(items: list[dict[str, Any]]) -> dict[str, int]:
    """Map canonical URL to status; every item must be there once."""
    result = {canonicalize_url(item["url"]): item["status"] for item in items}
    assert len(result) == len(items), "an item stands twice in the file"
    return result


class Project:
    """A folder in which ``scrapy crawl site`` can be run, as in a fresh clone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder.with_name(f"{folder.name}.log")
        folder.mkdir()
        shutil.copy(ROOT / "scrapy.cfg", folder)
        (folder / "crawler").symlink_to(ROOT / "crawler")

    def start(self, *args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "scrapy", "crawl", "site", *args]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def crawl(self, *args: str) -> tuple[int, str]:
        """Run a crawl to its end and return its exit status and its log."""
        task = {
            "folder": str(self.folder),
            "environment": dict(os.environ),
            "log": str(self._log),
            "command": ["scrapy", "crawl", "site", *args],
        }
        child = forks().start(task)
        status = child.wait()
        if status is None:
            child.kill()
        log = self._log.read_text()
        assert status is not None, log
        return status, log

    def jobs(self) -> list[str]:
        """Name everything that crawls have left in the project's folder."""
        ours = {"scrapy.cfg", "crawler"}
        files = (path.relative_to(self.folder) for path in self.folder.glob("*"))
        return sorted(
            str(job.relative_to(self.folder))
            for file in files
            if file.name not in ours
            for job in ([self.folder / file, *(self.folder / file).glob("*")])
        )


class SampleProcess:
    """``python -m crawler.sample_site``, and the requests that it has logged."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log
        self.site = SampleSite(PAGES)
        self.folder = "crawls/127.0.0.1~" + url.rstrip("/").rpartition(":")[2]

    def requests(self) -> Counter[tuple[int, str]]:
        return read_log(self.log)


@contextmanager
def sample_process(folder: Path) -> Iterator[SampleProcess]:
    log = folder / "access.log"
    command = [sys.executable, "-m", "crawler.sample_site", "--log", str(log)]
    command += ["--pages", str(PAGES)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            yield SampleProcess(process, url, log)
        finally:
            process.terminate()
