"""Compressed feeds in real crawls: small files, and every item in them once."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import signal
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from support.page_server import page_server
from support.small_site import JOB, Site

from bloomdupe.jobs.on_disk.state_on_disk import overview

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

PAGES = {
    "/": "".join(f"<a href='/{name}'>x</a>" for name in "abcdefghij"),
    **{f"/{name}": f"<a href='/{name}1'>x</a>" for name in "abcdefghij"},
    **{f"/{name}1": "" for name in "abcdefghij"},
}

SPIDERS = """
import os
import scrapy


class Shop(scrapy.Spider):
    name = "shop"
    # Slow enough for several checkpoints.
    custom_settings = {"BLOOMDUPE_CHECKPOINT_INTERVAL": 0.02, "DOWNLOAD_DELAY": 0.01}
    many = 3

    def parse(self, response):
        path = response.url.partition("//")[2].partition("/")[2]
        for number in range(self.many if path == "c" else 3):
            yield {"path": path, "number": number, "text": 'a "b", ä'}
        yield from response.follow_all(css="a")


class Many(Shop):
    # One page brings so many items that they are committed in parts.
    name = "many"
    many = 500
"""

ITEMS = sorted((path[1:], number) for path in PAGES for number in range(3))
MANY = sorted([*ITEMS, *(("c", number) for number in range(3, 500))])

SMALL = """
import bloomdupe.feeds.feed, bloomdupe.feeds.exporter, bloomdupe.crawl.leases.outcomes
bloomdupe.feeds.feed.BLOCK_BYTES = 400
bloomdupe.feeds.exporter.MOST_BYTES = bloomdupe.crawl.leases.outcomes.MOST_BYTES = 5_000
"""
"""Many blocks, and many parts of a large page."""

DIE = """
import os
from bloomdupe.crawl.engines.checkpoint import Checkpoint
from bloomdupe.feeds.file import FeedFile
append, commit_with, pieces, commits = FeedFile.append, Checkpoint._commit_with, 0, 0

def die_at_piece(self):
    global pieces
    piece = self.content.piece if self.due else b""
    pieces += bool(piece)
    if pieces == {piece} and piece:
        base, fd = self.content.base, os.open(self.path, os.O_WRONLY | os.O_CREAT)
        {action}
        os.kill(os.getpid(), 9)
    append(self)

def die_after_commit(self, feeds):
    global commits
    commit_with(self, feeds)
    commits += any(feed.batch.file is not None for feed in feeds._durable)
    if commits == {commit}:
        os.kill(os.getpid(), 9)

FeedFile.append = die_at_piece
Checkpoint._commit_with = die_after_commit
"""
INSTANTS = {
    "committed, not written": "pass",
    "half written": "os.pwrite(fd, piece[:len(piece) // 2], base)",
    "written": "append(self)",
    "zeros after a power cut": "os.truncate(fd, base + 5)",
}

UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "Gzip": gzip.decompress,
    "Bz2": bz2.decompress,
    "LZMA": lzma.decompress,
}


def plugin(how: str) -> str:
    return f"scrapy.extensions.postprocessing.{how}Plugin"


def feeds(kind: str = "csv", **options: Any) -> str:
    """Return the setting of a feed for each compressor."""
    return "FEEDS=" + json.dumps(
        {
            f"out/{how}": {"format": kind, "postprocessing": [plugin(how)], **options}
            for how in UNPACK
        }
    )


def in_csv(data: bytes) -> list[tuple[str, int]]:
    header, *rows = csv.reader(io.StringIO(data.decode(), newline=""))
    assert header == ["path", "number", "text"]
    return sorted((path, int(number)) for path, number, _ in rows)


def in_json(data: bytes) -> list[tuple[str, int]]:
    return sorted((item["path"], item["number"]) for item in json.loads(data))


def in_xml(data: bytes) -> list[tuple[str, int]]:
    items = [
        {field.tag: field.text or "" for field in item}
        for item in ElementTree.fromstring(data)  # noqa: S314 - we have written it
    ]
    return sorted((item["path"], int(item["number"])) for item in items)


READERS = {"csv": in_csv, "json": in_json, "xml": in_xml}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "project"
    (folder / "out").mkdir(parents=True)
    (folder / "spiders.py").write_text(SPIDERS)
    with page_server(PAGES) as (base, requested):
        yield Site(folder, base, requested)


def die(site: Site, spider: str, *settings: str, **where: Any) -> None:
    """Crawl until a piece is to be written, or a commit was."""
    at = {"piece": 0, "commit": 0, "action": "pass", **where}
    process = site.start(spider, *settings, before=SMALL + DIE.format(**at))
    _, log = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, log


def found(site: Site, kind: str = "csv") -> list[list[tuple[str, int]]]:
    return [
        READERS[kind](unpack((site.folder / "out" / how).read_bytes()))
        for how, unpack in UNPACK.items()
    ]


def streams(data: bytes) -> int:
    """Count the streams that follow one another in a file."""
    count = 0
    while data:
        unpacker = lzma.LZMADecompressor()
        unpacker.decompress(data)
        data = unpacker.unused_data
        count += 1
    return count


def test_many_checkpoints_make_one_stream(site: Site) -> None:
    stats = site.crawl("Shop", JOB, feeds())
    assert stats["bloomdupe/checkpoints"] > 5
    assert found(site) == [ITEMS] * 3
    assert streams((site.folder / "out/LZMA").read_bytes()) == 1


@pytest.mark.parametrize("instant", INSTANTS)
@pytest.mark.parametrize("kind", READERS)
def test_they_hold_every_item_once_whenever_the_process_dies(
    site: Site, kind: str, instant: str
) -> None:
    setting = feeds(kind)
    for number in (2, 6):
        die(site, "Shop", JOB, setting, piece=number, action=INSTANTS[instant])
    site.crawl("Shop", JOB, setting, before=SMALL)
    assert found(site, kind) == [ITEMS] * 3


@pytest.mark.parametrize("commit", [1, 2, 4])
def test_lines_that_are_held_are_not_lost(site: Site, commit: int) -> None:
    for _ in range(2):
        die(site, "Shop", JOB, feeds(), commit=commit)
    site.crawl("Shop", JOB, feeds())
    assert found(site) == [ITEMS] * 3


@pytest.mark.parametrize("piece", [8, 20, 40, 70])
def test_a_large_page_that_dies_takes_no_held_line_with_it(
    site: Site, piece: int
) -> None:
    for action in INSTANTS.values():
        die(site, "Many", JOB, feeds(), piece=piece, action=action)
    site.crawl("Many", JOB, feeds(), before=SMALL)
    assert found(site) == [MANY] * 3


def test_a_stop_writes_all_there_is(site: Site) -> None:
    site.crawl("Shop", JOB, feeds(), "CLOSESPIDER_PAGECOUNT=5")
    first = found(site)[0]
    assert found(site) == [first] * 3
    assert len(first) >= 15
    site.crawl("Shop", JOB, feeds())
    assert found(site) == [ITEMS] * 3


def test_what_is_to_be_replaced_stays_until_a_block_is_written(site: Site) -> None:
    for how in UNPACK:
        (site.folder / "out" / how).write_text("of an earlier crawl\n")
    setting = feeds(overwrite=True)
    die(site, "Shop", JOB, setting, commit=1)
    for how in UNPACK:
        assert (site.folder / "out" / how).read_text() == "of an earlier crawl\n"
    site.crawl("Shop", JOB, setting)
    assert found(site) == [ITEMS] * 3


def test_batches_are_full(site: Site) -> None:
    name = "out/%(batch_id)03d.gz"
    options = {"format": "csv", "postprocessing": [plugin("Gzip")]}
    setting = "FEEDS=" + json.dumps({name: {**options, "batch_item_count": 10}})
    for piece in (2, 3):
        die(site, "Shop", JOB, setting, piece=piece, action=INSTANTS["half written"])
    site.crawl("Shop", JOB, setting)
    files = sorted((site.folder / "out").iterdir())
    batches = [in_csv(gzip.decompress(file.read_bytes())) for file in files]
    assert [len(batch) for batch in batches] == [10] * 6 + [3]
    assert sorted(item for batch in batches for item in batch) == ITEMS


def test_the_store_keeps_what_is_held_for_a_feed_that_a_run_lacks(site: Site) -> None:
    die(site, "Shop", JOB, feeds(), commit=2)
    job = overview(site.folder / "job/bloomdupe")
    assert job is not None
    assert job.runs is not None
    assert [output.bytes for output in job.runs.outputs] == [0, 0, 0]
    before = {output.items for output in job.runs.outputs}.pop()
    assert before
    accept = "BLOOMDUPE_FEED_CHANGED=accept"
    site.crawl("Shop", JOB, "CLOSESPIDER_PAGECOUNT=1", accept)
    site.crawl("Shop", JOB, feeds(), accept)
    first, *others = found(site)
    assert others == [first] * 2
    assert len(first) == len(set(first))
    assert ("", 0) in first
    assert before <= len(first) < len(ITEMS)
