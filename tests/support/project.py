"""The crawler of this repository in a folder like a clone, and its sample site."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

from w3lib.url import canonicalize_url

from crawler.sample_site import SampleSite, canonical_path
from support.shared_data import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from support.crawl import Crawl


def clone_in(folder: Path) -> Path:
    """Make a folder like a clone of the repository."""
    shutil.copy(REPOSITORY / "scrapy.cfg", folder)
    (folder / "crawler").symlink_to(REPOSITORY / "crawler")
    return folder


class Project:
    """A folder in which ``scrapy crawl site`` can be run, as in a fresh clone."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self.folder = clone_in(crawl.folder)

    def crawl(self, *args: str, code: int = 0) -> str:
        """Run a crawl to its end, with this exit status, and return its log."""
        return self._crawl.scrapy("crawl", "site", *args, status=code).log

    def jobs(self) -> list[str]:
        """Name everything that crawls have left in the project's folder."""
        found = {*self.folder.glob("*"), *self.folder.glob("*/*")}
        names = (str(path.relative_to(self.folder)) for path in found)
        return sorted(n for n in names if not n.startswith(("crawler", "scrapy.cfg")))

    def items(self, file: str) -> list[dict[str, Any]]:
        lines = (self.folder / file).read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def statuses(self, file: str) -> dict[str, int]:
        """Map canonical URL to status; every item must be there once."""
        items = self.items(file)
        result = {canonicalize_url(item["url"]): item["status"] for item in items}
        assert len(result) == len(items), "an item stands twice in the file"
        return result


class Sample:
    """``python -m crawler.sample_site`` with 100 pages, and its log."""

    def __init__(self, url: str, log: Path) -> None:
        self.url = url
        self.site = SampleSite(100)
        self.folder = "crawls/127.0.0.1~" + url.rstrip("/").rpartition(":")[2]
        self._log = log

    def requests(self) -> Counter[tuple[int, str]]:
        """Count status and canonical path of the requests that it has logged."""
        lines = self._log.read_text("ascii").splitlines() if self._log.exists() else []
        fields = (line.split(" ", 2) for line in lines)
        return Counter((int(status), canonical_path(uri)) for status, _, uri in fields)
