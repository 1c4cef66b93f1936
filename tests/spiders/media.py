"""Pipelines of the user's that store files."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any
from urllib.parse import urlsplit

from scrapy import Spider
from scrapy.pipelines.files import FilesPipeline, FSFilesStore

from bloomdupe.feeds import complete_files

LONG = f"/{300 * 'e'}"
"""No file can have this name."""


class Named(FilesPipeline):
    """With a folder in the names."""

    def file_path(self, request: Any, *_: Any, **__: Any) -> Any:
        return "some/folder" + urlsplit(request.url).path


class OwnStore(FSFilesStore):
    pass


class WithOwnStore(FilesPipeline):
    STORE_SCHEMES = {**FilesPipeline.STORE_SCHEMES, "": OwnStore}


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def fill_the_disk() -> None:
    """Let no file of a media pipeline be written."""
    complete_files.sync = full  # type: ignore[assignment]


def die_between_two_files() -> None:
    """Be killed when a second file of a media pipeline is to be synced."""
    sync, first = complete_files.sync, iter([True])

    def once(fd: int) -> None:
        if not next(first, False):
            os.kill(os.getpid(), signal.SIGKILL)
        sync(fd)

    complete_files.sync = once  # type: ignore[assignment]


class Pictures(Spider):
    name = "pictures"

    def parse(self, response: Any) -> Any:
        yield {"image_urls": [response.urljoin("/picture.png")]}


class First(Spider):
    name = "first"

    def parse(self, response: Any) -> Any:
        for pipeline in self.crawler.engine.scraper.itemproc.middlewares:
            names = f"{type(pipeline).__name__} {type(pipeline.store).__name__}"
            self.crawler.stats.set_value("stores", names)
        yield {"file_urls": [response.urljoin(path) for path in (LONG, "/file.bin")]}
