"""The feeds of a job belong to it: none is forgotten, none is emptied on the way."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.utils.python import global_object_name
from spiders.feeds import (
    Articles,
    AtOnce,
    ByCategory,
    NotForJson,
    OtherFields,
    Strips,
    Wandering,
)
from support.repetition import repeated
from support.shop import ITEMS, NEW, feeds, items_of, read
from support.shop import PAGES as SHOP

if TYPE_CHECKING:
    from support.crawl import Crawl

PAGES = SHOP
# A checkpoint after each page.
SETTINGS = {"BLOOMDUPE_CHECKPOINT_INTERVAL": 0.001, "CONCURRENT_REQUESTS": 1}
THIRD = "here third page"
ALL = feeds(["jsonl", "json", "csv"], overwrite=True)


def test_the_working_directory_may_change(crawl: Crawl) -> None:
    """Relative paths begin in the directory in which the crawl was started."""
    crawl.settings["FEEDS"] = {
        **ALL,
        "batch-%(batch_id)d.jsonl": {"format": "jsonl", "batch_item_count": 7},
        "items.sums": {"format": "sums"},
    }
    crawl.settings["FEED_EXPORTERS"] = {"sums": "spiders.feeds.Sums"}
    crawl.settings["ITEM_PIPELINES"] = {global_object_name(Wandering): 1}
    crawl.killed(Articles, stop=THIRD)
    log = crawl.run(Articles).log
    assert "ERROR" not in log
    for name in ("items.sums", *ALL):
        assert read(crawl.folder / name) == ITEMS
    assert read(*crawl.folder.glob("batch-*")) == ITEMS
    assert not crawl.run(Articles).requested


def of_csv(**options: Any) -> dict[str, Any]:
    return {"FEEDS": feeds(["csv"], **options)}


OTHER: dict[str, Any] = {"FEED_EXPORTERS": {"csv": "spiders.feeds.Semicolons"}}
SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "encoding": ({}, of_csv(encoding="utf-16"), "with encoding = None, now it has"),
    "delimiter": (
        {},
        of_csv(item_export_kwargs={"delimiter": ";"}),
        "{'delimiter': ';'}",
    ),
    "columns": ({}, of_csv(fields=["number"]), "fields = None, now it has fields ="),
    "other exporter": ({}, OTHER, "another exporter or storage"),
    "usual exporter": (OTHER, {}, "another exporter or storage"),
}
"""Settings of a crawl, those with which it is refused, and why."""


@pytest.mark.parametrize("shape", repeated(SHAPES))
def test_what_shapes_a_file_must_not_change(crawl: Crawl, shape: str) -> None:
    begun, changed, said = SHAPES[shape]
    crawl.settings |= of_csv()
    file = crawl.folder / "items.csv"
    crawl.killed(Articles, stop=THIRD, **begun)
    before = file.read_bytes() if file.exists() else b""
    run = crawl.refused(Articles, **changed)
    assert "items.csv was begun with" in run.log
    assert said in run.log
    assert (file.read_bytes() if file.exists() else b"") == before
    crawl.run(Articles, **begun)
    assert file.read_bytes().startswith(before)


def test_a_finished_job_makes_none_of_its_files_anew(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = ALL
    crawl.run(Articles)
    for name in ALL:
        (crawl.folder / name).unlink()
    assert "Stored" not in crawl.run(Articles).log
    assert not any((crawl.folder / name).exists() for name in ALL)


def test_new_work_of_a_finished_job_is_added(crawl: Crawl) -> None:
    """Also if a run between has no items, or is stopped; columns stay as they were."""
    crawl.settings["FEEDS"] = ALL
    jsonl, json_, csv = (crawl.folder / name for name in ALL)
    crawl.run(Articles)
    with csv.open("a") as file:
        file.write("mine,1\n")
    crawl.run(Articles, starts=("/", "/gone"))
    more = tuple(f"/gone{n}" for n in range(20))
    starts = ("/", "/gone", *more[:10], "/new", *more[10:])
    crawl.interrupted(OtherFields, after=15, starts=starts, CONCURRENT_REQUESTS=1)
    assert read(json_) == ITEMS
    crawl.run(Articles, starts=starts)
    assert read(jsonl) == read(json_) == NEW
    assert read(csv) == sorted([("mine", 1), *NEW])


@pytest.mark.parametrize("overwrite", repeated([True, False]))
def test_a_new_round_begins_anew_or_is_added(crawl: Crawl, overwrite: bool) -> None:
    kinds = ["jsonl", "json"] if overwrite else ["jsonl", "csv"]
    crawl.settings["FEEDS"] = feeds(kinds, overwrite=overwrite)
    crawl.run(Articles)
    crawl.run(Articles, BLOOMDUPE_START_REQUESTS="again")
    expected = sorted([*([] if overwrite else ITEMS), *items_of("")])
    for name in crawl.settings["FEEDS"]:
        assert read(crawl.folder / name) == expected


def test_a_crawl_goes_on_from_a_backup_that_was_made_while_it_ran(
    crawl: Crawl,
) -> None:
    """The pieces that files lacked then are gone by now."""
    crawl.settings["FEEDS"] = ALL
    file = crawl.folder / "items.jsonl"
    process = crawl.start(Articles)
    for pages in (4, 8, 12):
        crawl.site.hold_after(4)
        process.until_requested(pages + 1)
        process.until(lambda: file.exists() and len(read(file)) == 3 * pages)
        if pages == 4:
            crawl.bloomdupe("backup", "job", "backup")
    process.kill()
    crawl.site.release()
    shutil.rmtree(crawl.store)
    (crawl.folder / "backup").rename(crawl.store)
    for _ in range(2):  # both, in any order
        said = r"(items\.\w+) was lengthened .* left (\d+) bytes"
        found = re.search(said, crawl.refused(Articles).log)
        assert found
        os.truncate(crawl.folder / found[1], int(found[2]))
    crawl.run(Articles)
    for name in ALL:
        assert read(crawl.folder / name) == ITEMS


def test_another_parameter_of_the_spider_is_another_feed(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = {
        "%(category)s.jsonl": {"format": "jsonl", "overwrite": True}
    }
    books, music = crawl.folder / "books.jsonl", crawl.folder / "music.jsonl"
    crawl.run(ByCategory, CATEGORY="books")
    content = books.read_bytes()
    # The job has finished: new work is of the other category, and its file is ours.
    new = ("/", "/new", "/a")
    crawl.site.hold_after(1)
    crawl.killed(
        ByCategory, stop="after pwrite music.jsonl", starts=new, CATEGORY="music"
    )
    crawl.site.release()
    (done,) = {path for path, _ in read(music)}
    assert read(music) == items_of(done)[:1]
    assert books.read_bytes() == content
    books.write_bytes(content + b'{"path": "mine", "number": 0}\n')
    crawl.run(ByCategory, starts=new, CATEGORY="music")
    assert read(music) == [*items_of("a"), *items_of("new")]
    # The job never erases earlier lines of the first file, with -O neither.
    crawl.run(ByCategory, starts=(*new, "/b"), CATEGORY="books")
    assert read(books) == sorted([*ITEMS, ("mine", 0), *items_of("b")])
    assert len(read(music)) == 6


def test_columns_of_another_crawl_get_another_header(crawl: Crawl) -> None:
    place = crawl.folder / "items.csv"
    place.write_text("name,price\na,5")
    crawl.run(Articles, FEEDS=feeds(["csv"]))
    first, second, header, *rows = place.read_text().splitlines()
    assert (first, second, header) == ("name,price", "a,5", "path,number")
    assert len(rows) == len(ITEMS)


def test_an_item_that_fails_in_one_exporter_reaches_the_other_feeds(
    crawl: Crawl,
) -> None:
    bad = feeds(["jsonl", "json"], item_export_kwargs={"default": "nothing"})
    bad["odd.csv"] = {"format": "csv", "item_filter": "builtins.dict"}
    run = crawl.run(NotForJson, FEEDS=bad | feeds(["csv", "marshal"]), status=1)
    assert run.log.count("not callable") > len(ITEMS)  # each item, and the delivery
    assert "Error storing the feed (63 items) in: items.json" in run.log
    assert not [*crawl.folder.glob(".*.part")]
    for name in ("items.csv", "items.marshal"):
        assert read(crawl.folder / name) == ITEMS


@pytest.mark.parametrize("jobdir", ["job", None])
def test_an_item_is_as_it_was_when_it_was_the_exporters_turn(
    crawl: Crawl, jobdir: str | None
) -> None:
    """As with Scrapy, whose exporter it is without a job."""
    changed: dict[str, Any] = {"EXTENSIONS": {global_object_name(Strips): 500}}
    crawl.run(Articles, FEEDS=ALL, JOBDIR=jobdir, **changed)
    for name in ALL:
        assert read(crawl.folder / name) == ITEMS


THEIRS = "scrapy.extensions.feedexport.FeedExporter"


def test_another_feed_exporter_is_named(crawl: Crawl) -> None:
    mine = {THEIRS: None, global_object_name(AtOnce): 0}
    run = crawl.run(Articles, FEEDS=ALL, EXTENSIONS=mine)
    assert "AtOnce writes items at once" in run.log
    assert read(crawl.folder / "items.jsonl") == ITEMS


def test_a_feed_exporter_that_is_switched_off_stays_off(crawl: Crawl) -> None:
    crawl.run(Articles, FEEDS=ALL, EXTENSIONS={THEIRS: None})
    assert not any((crawl.folder / name).exists() for name in ALL)
