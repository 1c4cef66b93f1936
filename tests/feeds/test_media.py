"""Files of Scrapy's media pipelines: whole, or not there."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from spiders.media import (
    LONG,
    First,
    Pictures,
    die_between_two_files,
    fill_the_disk,
    full,
)
from support.crawl import FEEDS
from support.engines import on_both_engines
from support.shared_data import needs_package
from support.site import Answer

from bloomdupe.feeds import complete_files
from bloomdupe.feeds.complete_files import CompleteFilesStore

if TYPE_CHECKING:
    from pathlib import Path

    from support.crawl import Crawl
    from support.site import Pages

PAGES: Pages = {"/": "x", "/file.bin": "y" * (10 << 20), LONG: "x"}
SETTINGS = {"FILES_STORE": "files", "FEEDS": FEEDS}
NO_JOB: dict[str, Any] = {"JOBDIR": None, "BLOOMDUPE_REDIS_URL": None}


@on_both_engines
@pytest.mark.parametrize(
    ("pipeline", "stores", "settings"),
    [
        ("WithOwnStore", "WithOwnStore OwnStore", {}),
        ("Named", "Named CompleteFilesStore", {}),
        ("Named", "Named FSFilesStore", NO_JOB),
    ],
)
def test_a_job_has_complete_files_unless_the_store_is_another(
    crawl: Crawl, pipeline: str, stores: str, settings: dict[str, Any]
) -> None:
    # A name that is too long ends no crawl: of it, Scrapy tells in the log.
    pipelines = {f"spiders.media.{pipeline}": 1}
    run = crawl.run(First, ITEM_PIPELINES=pipelines, **settings)
    assert run.stats["stores"] == stores


@on_both_engines
def test_a_full_disk_stops_the_crawl_without_a_feed_exporter(crawl: Crawl) -> None:
    run = crawl.run(
        First,
        before=fill_the_disk,
        status=1,
        ITEM_PIPELINES={"spiders.media.Named": 1},
        EXTENSIONS={"scrapy.extensions.feedexport.FeedExporter": None},
    )
    said = r"cannot write files/some/folder/\S+, a file of a media pipeline: "
    assert re.search(said, run.log)
    assert not [*crawl.folder.rglob("file.bin")]


def test_where_an_image_is_there_are_its_thumbnails(crawl: Crawl) -> None:
    needs_package("PIL")
    from PIL import Image

    drawn = BytesIO()
    Image.new("RGB", (9, 9)).save(drawn, "PNG")
    png = Answer(drawn.getvalue(), headers={"Content-Type": "image/png"})
    crawl.site.pages = {"/": "x", "/picture.png": png}
    crawl.settings |= {
        "ITEM_PIPELINES": {"scrapy.pipelines.images.ImagesPipeline": 1},
        "IMAGES_STORE": "images",
        "IMAGES_THUMBS": {"small": (2, 2), "large": (5, 5)},
    }
    crawl.killed(Pictures, before=die_between_two_files)
    crawl.run(Pictures)
    folders = [place.parent.name for place in crawl.folder.rglob("*.jpg")]
    assert sorted(folders) == ["full", "large", "small"]
    (item,) = crawl.items()
    assert len(item["images"]) == 1


# The store by itself


def test_a_link_in_the_place_of_the_leftover_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CompleteFilesStore(str(tmp_path / "files"), print)
    with monkeypatch.context() as patch:
        patch.setattr(complete_files, "sync", full)
        with pytest.raises(OSError, match="No space left"):
            store.persist_file("file", BytesIO(b"x"), None)
    (aside,) = (tmp_path / "files").iterdir()
    aside.unlink()
    (tmp_path / "precious").write_text("mine")
    aside.symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        store.persist_file("file", BytesIO(b"x"), None)
    assert (tmp_path / "precious").read_text() == "mine"


def test_two_that_write_the_same_file_leave_a_whole_one(tmp_path: Path) -> None:
    """As two processes do: each writer opens the file, and locks it, for itself."""
    store = CompleteFilesStore(str(tmp_path / "files"), print)
    contents = [bytes([number]) * (1 << 20) for number in range(2)]
    file, found = tmp_path / "files" / "file", set()

    def write(content: bytes) -> None:
        for _ in range(12):
            store.persist_file("file", BytesIO(content), None)

    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(write, content) for content in contents]
        while not all(writer.done() for writer in writers):
            if file.exists():
                found.add(file.read_bytes())
    assert [writer.result() for writer in writers] == [None, None]
    assert found <= {*contents}
    assert [*file.parent.iterdir()] == [file]
