"""Compressed feeds in real crawls: small files, and every item in them once."""

from __future__ import annotations

import gzip
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from spiders.feeds import INSTANTS, Many, Shop, die_at_piece, small
from support.shop import ITEMS, MANY, items_in

if TYPE_CHECKING:
    from support.crawl import Crawl
    from support.shop import Items

pytestmark = pytest.mark.slow

KINDS = ("jsonl", "csv")


def feeds(**options: Any) -> dict[str, Any]:
    """Return the setting of a compressed feed of each kind."""
    plugins = ["scrapy.extensions.postprocessing.GzipPlugin"]
    return {
        f"out/{kind}": {"format": kind, "postprocessing": plugins, **options}
        for kind in KINDS
    }


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.settings["FEEDS"] = feeds()
    return crawl


def found(crawl: Crawl) -> list[Items]:
    return [
        items_in(gzip.decompress((crawl.folder / "out" / kind).read_bytes()), kind)
        for kind in KINDS
    ]


def is_durable(crawl: Crawl, pages: int) -> bool:
    return crawl.durable_pages == pages


def test_many_checkpoints_make_one_stream(crawl: Crawl) -> None:
    crawl.site.hold()
    process = crawl.start(Shop, CONCURRENT_REQUESTS=1)
    for answers in range(1, 7):
        crawl.site.hold_after(1)
        process.until_requested(answers + 1)
        process.until(partial(is_durable, crawl, answers))
    crawl.site.release()
    run = process.wait()
    assert run.stats["bloomdupe/checkpoints"] > 5
    assert found(crawl) == [ITEMS] * 2
    stream = zlib.decompressobj(31)
    stream.decompress((crawl.folder / "out/csv").read_bytes())
    assert not stream.unused_data


@pytest.mark.parametrize("instant", INSTANTS)
def test_every_item_is_written_once_after_a_kill_at_any_time(
    crawl: Crawl, instant: str
) -> None:
    for number in (2, 6):
        crawl.killed(Shop, before=partial(die_at_piece, number, instant))
    crawl.run(Shop, before=small)
    assert found(crawl) == [ITEMS] * 2


def test_lines_that_are_held_are_not_lost(crawl: Crawl) -> None:
    for commit in (3, 4, 6, 6):
        crawl.killed(Shop, stop="after commit", nth=commit)
    crawl.run(Shop)
    assert found(crawl) == [ITEMS] * 2


@pytest.mark.parametrize("first", range(4))
def test_a_large_page_that_dies_takes_no_held_line_with_it(
    crawl: Crawl, first: int
) -> None:
    instants = [*INSTANTS, *INSTANTS][first : first + 4]
    for instant, piece in zip(instants, (4, 8, 12, 8), strict=True):
        crawl.killed(Many, before=partial(die_at_piece, piece, instant))
    crawl.run(Many, before=small)
    assert found(crawl) == [MANY] * 2


def test_a_stop_writes_all_there_is(crawl: Crawl) -> None:
    crawl.run(Shop, CLOSESPIDER_PAGECOUNT=5)
    first = found(crawl)[0]
    assert found(crawl) == [first] * 2
    assert len(first) >= 15
    crawl.run(Shop)
    assert found(crawl) == [ITEMS] * 2


def test_the_replaced_file_stays_until_a_block_is_written(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = feeds(overwrite=True)
    files = [crawl.folder / "out" / how for how in KINDS]
    files[0].parent.mkdir()
    for file in files:
        file.write_text("of an earlier crawl\n")
    crawl.killed(Shop, stop="here third page")
    assert {file.read_text() for file in files} == {"of an earlier crawl\n"}
    crawl.run(Shop)
    assert found(crawl) == [ITEMS] * 2
