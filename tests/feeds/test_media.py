"""Files of Scrapy's media pipelines: whole, or not there."""

from __future__ import annotations

import errno
import os
import resource
import signal
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from spiders.media import First, fill_the_disk
from support.crawl import FEEDS
from support.forks import Child

from bloomdupe.feeds.complete_files import CompleteFilesStore

if TYPE_CHECKING:
    from pathlib import Path

    from support.crawl import Crawl
    from support.site import Pages

PAGES: Pages = {"/": "x", "/file.bin": "y" * (10 << 20)}
SETTINGS = {"FILES_STORE": "files", "FEEDS": FEEDS}


@pytest.mark.parametrize(
    ("pipeline", "job", "stores"),
    [
        ("WithOwnStore", "job", "WithOwnStore OwnStore"),
        ("Named", None, "Named FSFilesStore"),
        ("Named", "job", "Named CompleteFilesStore"),
    ],
)
def test_other_stores_and_crawls_without_a_job_are_left_as_they_are(
    crawl: Crawl, pipeline: str, job: str | None, stores: str
) -> None:
    pipelines = {f"spiders.media.{pipeline}": 1}
    run = crawl.run(First, ITEM_PIPELINES=pipelines, JOBDIR=job)
    assert run.stats["stores"] == stores


def test_a_full_disk_stops_the_crawl_without_a_feed_exporter(crawl: Crawl) -> None:
    run = crawl.run(
        First,
        before=fill_the_disk,
        status=1,
        ITEM_PIPELINES={"spiders.media.Named": 1},
        EXTENSIONS={"scrapy.extensions.feedexport.FeedExporter": None},
    )
    assert "file.bin, a file of a media pipeline: " in run.log


# The store by itself


def never(error: Exception) -> None:
    raise AssertionError(error)


def test_a_full_disk_is_reported_and_an_impossible_name_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a disk, the crawl cannot go on; of a name, Scrapy tells in the log."""
    told: list[Exception] = []
    store = CompleteFilesStore(str(tmp_path), told.append)
    info: Any = None
    with pytest.raises(OSError, match="too long"):
        store.persist_file("e" * 300, BytesIO(b"x"), info)
    assert told == []

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.persist_file("file", BytesIO(b"x"), info)
    (error,) = told
    assert f"cannot write {tmp_path / 'file'}, a file of a media pipeline" in str(error)
    assert not (tmp_path / "file").exists()


def test_a_link_in_the_place_of_the_leftover_is_not_followed(tmp_path: Path) -> None:
    store = CompleteFilesStore(str(tmp_path / "files"), never)
    info: Any = None
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            store.persist_file("file", BytesIO(b"x" * 100), info)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    (aside,) = (tmp_path / "files").iterdir()
    aside.unlink()
    (tmp_path / "precious").write_text("mine")
    aside.symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"):
        store.persist_file("file", BytesIO(b"x"), info)
    assert (tmp_path / "precious").read_text() == "mine"


WRITE_OFTEN = """
import sys
from io import BytesIO
from bloomdupe.feeds.complete_files import CompleteFilesStore
store = CompleteFilesStore("files", sys.exit)
content = bytes([int(sys.argv[1])]) * (1 << 20)
for _ in range(12):
    store.persist_file("file", BytesIO(content), None)
"""


def test_two_processes_that_write_the_same_file_leave_a_whole_one(
    tmp_path: Path,
) -> None:
    script, files = tmp_path / "script.py", tmp_path / "files"
    script.write_text(WRITE_OFTEN)
    files.mkdir()  # Scrapy's store fails if another process makes it just then
    writers = [
        Child({
            "folder": str(tmp_path),
            "command": [str(script), str(number)],
            "log": str(tmp_path / f"log{number}"),
        })
        for number in range(2)
    ]  # fmt: skip
    found = set()
    while any(writer.alive for writer in writers):
        if (files / "file").exists():
            found.add((files / "file").read_bytes())
    assert [writer.end() for writer in writers] == [0, 0]
    assert found <= {bytes([number]) * (1 << 20) for number in range(2)}
    assert [file.name for file in files.iterdir()] == ["file"]
