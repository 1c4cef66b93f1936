"""CompleteFiles: gives Scrapy's media pipelines a store that writes complete files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import signals
from scrapy.exceptions import NotConfigured

from bloomdupe.feeds.exporter import FeedExporter
from bloomdupe.inside_scrapy.engine import item_pipelines
from bloomdupe.settings import has_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BytesIO

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from typing_extensions import Self


class CompleteFiles:
    """An extension that gives media pipelines another store, if there is a job.

    It applies to pipelines that derive from ``FilesPipeline``, as ``ImagesPipeline``
    does, and write to Scrapy's own store for local files. Other stores stay: S3, Google
    Cloud and FTP, and classes of the project.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the extension of a crawl, if it has a job."""
        settings = crawler.settings
        if not (has_job(settings) and settings["ITEM_PIPELINES"]):
            raise NotConfigured
        extension = cls()
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        """Replace the stores; called by Scrapy before the first item."""
        # Other crawls need not import Scrapy's media pipelines.
        from scrapy.pipelines.files import FilesPipeline

        from bloomdupe.feeds.complete_files import CompleteFilesStore
        from bloomdupe.inside_scrapy.private_names import FSFilesStore

        fail = FeedExporter.of(spider.crawler).fail
        for pipeline in item_pipelines(spider.crawler):
            if isinstance(pipeline, FilesPipeline):
                store: Any = pipeline.store
                if type(store) is FSFilesStore:
                    pipeline.store = CompleteFilesStore(store.basedir, fail)
                    if getattr(pipeline, "thumbs", None):
                        _write_thumbnails_first(pipeline)


def _write_thumbnails_first(pipeline: Any) -> None:
    """Let an image come into its place when its thumbnails are there.

    Where the image is, Scrapy looks for none of them in the next run.
    """
    from scrapy.pipelines.images import ImagesPipeline

    written = getattr(type(pipeline), "image_downloaded", None)
    if written is not ImagesPipeline.image_downloaded:
        return  # it may do anything with them
    images = pipeline.get_images

    def get_images(
        response: Response, request: Request, info: Any, **more: Any
    ) -> Iterator[tuple[str, Any, BytesIO]]:
        found = [*images(response, request, info, **more)]
        for path, _, data in found[1:]:
            pipeline.store.persist_file(path, data, info)
        yield from found[:1]

    pipeline.get_images = get_images
