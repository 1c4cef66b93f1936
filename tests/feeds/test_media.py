"""Files of Scrapy's media pipelines: whole, or not there."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import signal
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.pipelines.files import FSFilesStore
from support.forks import forks
from support.page_server import page_server

from bloomdupe.feeds.media import WholeFilesStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST = 8 << 20
"""Bytes at which the process that is to die may write no more to a file."""
SIZE = 10 << 20

SETTINGS = """
ADDONS = {"bloomdupe.Addon": 500}
JOBDIR = "job"
FILES_STORE = "files"
FEEDS = {"items.jsonl": {"format": "jsonlines"}}
BLOOMDUPE_EXPECTED_URLS = 10_000
SPIDER_MODULES = ["spiders"]
TELNETCONSOLE_ENABLED = False
"""

SPIDERS = """
import os, resource, signal
import scrapy
from scrapy.pipelines.files import FilesPipeline, FSFilesStore


class Named(FilesPipeline):
    # A pipeline of the project's own, with a folder in the names.

    def file_path(self, request, response=None, info=None, *, item=None):
        return "some/folder" + scrapy.utils.httpobj.urlparse_cached(request).path


class OwnStore(FSFilesStore):
    pass


class WithOwnStore(FilesPipeline):
    STORE_SCHEMES = {**FilesPipeline.STORE_SCHEMES, "": OwnStore}


class First(scrapy.Spider):
    name = "first"
    start_urls = ["BASE/page"]

    def parse(self, response):
        if "DOOMED" in os.environ:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (MOST, MOST))
        for pipeline in self.crawler.engine.scraper.itemproc.middlewares:
            print(type(pipeline).__name__, type(pipeline.store).__name__)
        yield {"file_urls": [response.urljoin("/file.bin")]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    pages = {"/page": "x", "/file.bin": "y" * SIZE}
    with page_server(pages) as (base, _):
        (tmp_path / "project.py").write_text(SETTINGS)
        (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
        text = SPIDERS.replace("BASE", base).replace("MOST", str(MOST))
        (tmp_path / "spiders.py").write_text(text)
        yield tmp_path


def crawl(
    project: Path, pipelines: str, *settings: str, doomed: bool = False
) -> tuple[int, str]:
    """Run a crawl; return its exit status and its log."""
    values = [f'ITEM_PIPELINES={{"{pipelines}": 1}}', *settings]
    options = [part for value in values for part in ("-s", value)]
    log = project / "crawl.log"
    task = {
        "folder": str(project),
        "environment": {"DOOMED": "1"} if doomed else {},
        "log": str(log),
        "command": ["scrapy", "crawl", "first", *options],
    }
    status, late = forks().run(task, lambda _: None)
    assert not late, log.read_text()
    return status, log.read_text()


def files(project: Path) -> dict[str, int]:
    """Return the sizes of the files that are no leftovers of a killed run."""
    return {
        file.name: file.stat().st_size
        for file in (project / "files").rglob("*")
        if file.is_file() and not file.name.startswith(".")
    }


@pytest.mark.parametrize(
    "pipeline", ["scrapy.pipelines.files.FilesPipeline", "spiders.Named"]
)
def test_a_file_is_whole_after_a_kill_in_the_midst_of_it(
    project: Path, pipeline: str
) -> None:
    status, log = crawl(project, pipeline, doomed=True)
    assert status == -signal.SIGXFSZ, log
    assert not files(project)
    status, log = crawl(project, pipeline)
    assert status == 0, log
    (item,) = map(json.loads, (project / "items.jsonl").read_text().splitlines())
    (file,) = item["files"]
    assert file["status"] == "downloaded"
    assert (project / "files" / file["path"]).stat().st_size == SIZE
    left = [place for place in (project / "files").rglob("*") if place.is_file()]
    assert len(left) == 1, left


def test_control_scrapy_itself_leaves_half_a_file(project: Path) -> None:
    pipeline = "scrapy.pipelines.files.FilesPipeline"
    off = 'EXTENSIONS={"bloomdupe.feeds.media.WholeFiles": null}'
    assert crawl(project, pipeline, off, doomed=True)[0] == -signal.SIGXFSZ
    (size,) = files(project).values()
    assert size < SIZE
    assert crawl(project, pipeline, off)[0] == 0
    assert [*files(project).values()] == [size]


def test_other_stores_and_crawls_without_a_job_are_left_as_they_are(
    project: Path,
) -> None:
    _, log = crawl(project, "spiders.WithOwnStore")
    assert "WithOwnStore OwnStore" in log
    _, log = crawl(project, "spiders.Named", "JOBDIR=")
    assert "Named FSFilesStore" in log
    _, log = crawl(project, "spiders.Named", "JOBDIR=other")
    assert "Named WholeFilesStore" in log


# The store by itself


def never(error: Exception) -> None:
    raise AssertionError(error)


def test_a_full_disk_is_told_and_a_name_that_cannot_be_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a disk, the crawl cannot go on; of a name, Scrapy tells in the log."""
    told: list[Exception] = []
    store = WholeFilesStore(str(tmp_path), told.append)
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


def test_a_file_is_where_scrapys_own_store_puts_it(tmp_path: Path) -> None:
    stores = [
        WholeFilesStore(str(tmp_path / "ours"), never),
        FSFilesStore(tmp_path / "scrapys"),
    ]
    info: Any = None
    for path in ("a", "full/b.jpg", "/c", "d/" + "e" * 255):
        for store in stores:
            store.persist_file(path, BytesIO(path.encode()), info)
            store.persist_file(path, BytesIO(path.encode() + b"2"), info)
    contents = [
        {
            str(file.relative_to(store.basedir)): (
                file.read_bytes(),
                file.stat().st_mode,
            )
            for file in tmp_path.joinpath(store.basedir).rglob("*")
            if file.is_file()
        }
        for store in stores
    ]
    assert contents[0] == contents[1]
    assert len(contents[0]) == 4


def test_a_link_in_the_place_of_the_leftover_is_not_followed(tmp_path: Path) -> None:
    store = WholeFilesStore(str(tmp_path / "files"), never)
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


def write_often(folder: str, content: bytes) -> None:
    store = WholeFilesStore(folder, never)
    info: Any = None
    for _ in range(30):
        store.persist_file("file", BytesIO(content), info)


def test_two_processes_that_write_the_same_file_leave_a_whole_one(
    tmp_path: Path,
) -> None:
    contents = [bytes([number]) * (1 << 20) for number in range(3)]
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=write_often, args=(str(tmp_path), content))
        for content in contents
    ]
    for writer in writers:
        writer.start()
    found = set()
    while any(writer.is_alive() for writer in writers):
        if (tmp_path / "file").exists():
            found.add((tmp_path / "file").read_bytes())
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert found <= {*contents}
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
