"""Pipelines of the user's that store files."""

from __future__ import annotations

import resource
import signal
from typing import Any
from urllib.parse import urlsplit

from scrapy import Spider
from scrapy.pipelines.files import FilesPipeline, FSFilesStore


class Named(FilesPipeline):
    """With a folder in the names."""

    def file_path(self, request: Any, *_: Any, **__: Any) -> Any:
        return "some/folder" + urlsplit(request.url).path


class OwnStore(FSFilesStore):
    pass


class WithOwnStore(FilesPipeline):
    STORE_SCHEMES = {**FilesPipeline.STORE_SCHEMES, "": OwnStore}


class First(Spider):
    name = "first"
    doomed = False

    def parse(self, response: Any) -> Any:
        if self.doomed:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
        for pipeline in self.crawler.engine.scraper.itemproc.middlewares:
            names = f"{type(pipeline).__name__} {type(pipeline.store).__name__}"
            self.crawler.stats.set_value("stores", names)
        yield {"file_urls": [response.urljoin("/file.bin")]}


def limit() -> None:
    """Let the process die when a file passes 8 MiB."""
    First.doomed = True
