"""Media pipelines, and a pipeline that changes items after them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import SITE, Pages, item
from scrapy.http import Response
from scrapy.pipelines.files import FilesPipeline
from support.stops import call
from table import idiom


class Digest:
    """Adds checksums of the downloaded files to the item."""

    def process_item(self, item: Any, *_: Any) -> Any:
        parts = []
        for file in item["files"]:
            data = Path("files", file["path"]).read_bytes()
            parts.append(hashlib.sha256(data).hexdigest()[:8])
        call("pipeline process_item")
        item["part"] = " ".join(parts)
        return item


@idiom(
    item_pipelines={FilesPipeline: 100, Digest: 200},
    settings={"FILES_STORE": "files"},
    asks=2,
)
class Files(Pages):
    """FilesPipeline: two files for each item, some of them for several."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield from response.follow_all(css="a", callback=self.parse_detail)

    def parse_detail(self, response: Response) -> Iterator[Any]:
        number = int(response.url.rpartition("/")[2])
        files = [f"{SITE}/file/{number}", f"{SITE}/file/{number // 4}"]
        yield {**item(response), "file_urls": files}
