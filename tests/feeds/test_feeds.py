"""Feeds in real crawls: every item in its file once, whenever the process dies."""

from __future__ import annotations

import os
import re
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pytest
from spiders.feeds import (
    INSTANTS,
    Late,
    Many,
    Shop,
    Starts,
    die_at_piece,
)
from support.crawl import FEEDS
from support.shop import (
    FOUND,
    ITEMS,
    MANY,
    READERS,
    feeds,
    items_of,
    read,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.crawl import Crawl

pytestmark = pytest.mark.slow

FORMATS = [kind for kind in READERS if kind != "sums"]
NOT_WRITTEN = "committed, not written"
THEIRS = "scrapy.extensions.feedexport.FeedExporter"


@pytest.mark.parametrize(
    ("instant", "indent"), [*zip(INSTANTS, [None, 0, 2, None], strict=True)]
)
def test_every_item_is_written_once_in_all_formats_after_a_kill(
    crawl: Crawl, instant: str, indent: int | None
) -> None:
    # Exporters without indentation have no such argument.
    crawl.settings["FEEDS"] = feeds(FORMATS, indent=indent)
    for number in (2, 9, 16):
        crawl.killed(Shop, before=partial(die_at_piece, number, instant))
    run = crawl.run(Shop)
    for name in crawl.settings["FEEDS"]:
        assert read(crawl.folder / name) == ITEMS
    assert run.stats["bloomdupe/total_items"] == len(ITEMS)
    assert run.stats["bloomdupe/total_pages"] == len(FOUND)
    assert run.stats["bloomdupe/runs"] == 4
    assert "Stored csv feed (63 items) in: items.csv" in run.log
    assert run.stats["feedexport/success_count/FileFeedStorage"] == len(FORMATS)


def test_written_at_once_items_would_be_doubled(crawl: Crawl) -> None:
    """The control: with Scrapy's own feed exports the same judge sees it."""
    crawl.settings |= {
        "FEEDS": feeds(["jsonl"]),
        "EXTENSIONS": {THEIRS: None, "spiders.feeds.Theirs": 0},
        "BLOOMDUPE_CHECKPOINT_INTERVAL": 3_600,
    }
    crawl.killed(Shop, stop="here item")
    crawl.run(Shop)
    assert read(crawl.folder / "items.jsonl") != ITEMS


def test_earlier_contents_of_the_file_stay(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = feeds()
    (crawl.folder / "items.jsonl").write_text('{"path": "old", "number": 0}\n')
    (crawl.folder / "items.csv").write_text("path,number,text\r\nold,0,\r\n")
    crawl.killed(Shop, before=partial(die_at_piece, 5, NOT_WRITTEN))
    crawl.run(Shop)
    for name in feeds():
        assert read(crawl.folder / name) == sorted([*ITEMS, ("old", 0)])


def test_items_of_start_come_once(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = FEEDS
    for number in (1, 4):
        crawl.killed(Starts, before=partial(die_at_piece, number, NOT_WRITTEN))
    run = crawl.run(Starts)
    expected = sorted([*ITEMS, *items_of("start")])
    assert read(crawl.folder / "items.jsonl") == expected
    assert run.stats["bloomdupe/total_items"] == len(expected)


def test_an_item_that_comes_after_the_end_comes_again(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = feeds(FORMATS)
    first = crawl.run(Late, CLOSESPIDER_PAGECOUNT=1)
    assert "Traceback" not in first.log
    crawl.run(Late)
    for name in crawl.settings["FEEDS"]:
        assert read(crawl.folder / name) == sorted([*ITEMS, *items_of("start", 1)])


def test_a_page_with_very_many_items_is_all_there_or_not_at_all(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = feeds()
    for number in (10, 20):
        crawl.killed(Many, before=partial(die_at_piece, number, "half written"))
    crawl.run(Many)
    for name in feeds():
        assert read(crawl.folder / name) == MANY


def test_files_are_valid_up_to_the_last_item_during_a_crawl(
    crawl: Crawl,
) -> None:
    crawl.settings["FEEDS"] = feeds()
    files = [crawl.folder / name for name in feeds()]
    for number in (4, 8):
        crawl.killed(Shop, before=partial(die_at_piece, number, "written"))
        assert all({*read(file)} < {*ITEMS} for file in files)
    crawl.run(Shop, CLOSESPIDER_PAGECOUNT=5)
    assert all(read(file) for file in files)


def lengthen(file: Path) -> None:
    with file.open("a") as stream:
        stream.write('{"path": "mine", "number": 0}\n')


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_changed_file_is_refused_and_left_alone(crawl: Crawl, killed: bool) -> None:
    crawl.settings["FEEDS"] = FEEDS
    if killed:
        crawl.killed(Shop, before=partial(die_at_piece, 3, "written"))
    else:
        crawl.run(Shop, CLOSESPIDER_PAGECOUNT=5)
    file = crawl.folder / "items.jsonl"
    lengthen(file)
    changed = file.read_bytes()
    run = crawl.refused(Shop)
    assert "items.jsonl has grown to" in run.log
    assert file.read_bytes() == changed
    size, *_ = re.findall(r"which left ([\d,]+) bytes in it", run.log)
    os.truncate(file, int(size.replace(",", "")))
    crawl.run(Shop)
    assert read(file) == ITEMS


def test_the_files_of_a_finished_crawl_are_the_users(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = feeds()
    crawl.run(Shop)
    (crawl.folder / "items.jsonl").unlink()
    lengthen(crawl.folder / "items.csv")
    run = crawl.run(Shop, BLOOMDUPE_START_REQUESTS="again")
    # A new round: the start page is looked at anew.
    assert read(crawl.folder / "items.jsonl") == items_of("")
    assert run.stats["bloomdupe/total_items"] == len(ITEMS) + 3


def test_a_feed_exporter_that_is_switched_off_stays_off(crawl: Crawl) -> None:
    crawl.run(Shop, FEEDS=FEEDS, EXTENSIONS={THEIRS: None})
    assert not (crawl.folder / "items.jsonl").exists()


def test_without_a_job_feeds_are_as_in_scrapy(crawl: Crawl) -> None:
    run = crawl.run(Shop, FEEDS=feeds(), JOBDIR=None)
    for name in feeds():
        assert read(crawl.folder / name) == ITEMS
    assert "Not safe against crashes" not in run.log


@pytest.fixture
def full_disk(crawl: Crawl) -> Iterator[Path]:
    """A file system for the output only, all of it taken by a file ``filler``."""
    place = crawl.folder / "out"
    place.mkdir()
    if os.geteuid():
        pytest.skip("needs root, to mount a tmpfs")
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(place)]
    subprocess.run(mount, check=True)
    (place / "filler").write_bytes(bytes(16 << 10))
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_when_the_disk_of_a_feed_is_full_the_crawl_stops_and_goes_on_later(
    crawl: Crawl, full_disk: Path
) -> None:
    crawl.settings["FEEDS"] = {"out/items.jsonl": {"format": "jsonlines"}}
    run = crawl.start(Shop).wait()
    assert run.finish_reason == "frontier_disk_full"
    assert "cannot write to the feed out/items.jsonl" in run.log
    (full_disk / "filler").unlink()
    crawl.run(Shop)
    assert read(full_disk / "items.jsonl") == ITEMS
