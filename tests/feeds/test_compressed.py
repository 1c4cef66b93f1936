"""Compressed feeds in real crawls: small files, and every item in them once."""

from __future__ import annotations

import bz2
import gzip
import lzma
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from spiders.feeds import INSTANTS, Many, Shop, die_at_piece, small
from support.shop import ITEMS, MANY, items_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.crawl import Crawl
    from support.shop import Items

pytestmark = pytest.mark.slow

UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "Gzip": gzip.decompress,
    "Bz2": bz2.decompress,
    "LZMA": lzma.decompress,
}


def plugin(how: str) -> list[str]:
    return [f"scrapy.extensions.postprocessing.{how}Plugin"]


def feeds(kind: str = "csv", **options: Any) -> dict[str, Any]:
    """Return the setting of a feed for each compressor."""
    return {
        f"out/{how}": {"format": kind, "postprocessing": plugin(how), **options}
        for how in UNPACK
    }


@pytest.fixture
def crawl(crawl: Crawl) -> Crawl:
    crawl.settings["FEEDS"] = feeds()
    return crawl


def found(crawl: Crawl, kind: str = "csv") -> list[Items]:
    return [
        items_in(unpack((crawl.folder / "out" / how).read_bytes()), kind)
        for how, unpack in UNPACK.items()
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
    assert found(crawl) == [ITEMS] * 3
    stream = lzma.LZMADecompressor()
    stream.decompress((crawl.folder / "out/LZMA").read_bytes())
    assert not stream.unused_data


@pytest.mark.parametrize("instant", INSTANTS)
@pytest.mark.parametrize("kind", ["csv", "json", "xml"])
def test_every_item_is_written_once_after_a_kill_at_any_time(
    crawl: Crawl, kind: str, instant: str
) -> None:
    crawl.settings["FEEDS"] = feeds(kind)
    for number in (2, 6):
        crawl.killed(Shop, before=partial(die_at_piece, number, instant))
    crawl.run(Shop, before=small)
    assert found(crawl, kind) == [ITEMS] * 3


def test_lines_that_are_held_are_not_lost(crawl: Crawl) -> None:
    for commit in (3, 4, 6, 6):
        crawl.killed(Shop, stop="after commit", nth=commit)
    crawl.run(Shop)
    assert found(crawl) == [ITEMS] * 3


@pytest.mark.parametrize("first", range(4))
def test_a_large_page_that_dies_takes_no_held_line_with_it(
    crawl: Crawl, first: int
) -> None:
    instants = [*INSTANTS, *INSTANTS][first : first + 4]
    for instant, piece in zip(instants, (8, 20, 40, 20), strict=True):
        crawl.killed(Many, before=partial(die_at_piece, piece, instant))
    crawl.run(Many, before=small)
    assert found(crawl) == [MANY] * 3


def test_a_stop_writes_all_there_is(crawl: Crawl) -> None:
    crawl.run(Shop, CLOSESPIDER_PAGECOUNT=5)
    first = found(crawl)[0]
    assert found(crawl) == [first] * 3
    assert len(first) >= 15
    crawl.run(Shop)
    assert found(crawl) == [ITEMS] * 3


def test_the_replaced_file_stays_until_a_block_is_written(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = feeds(overwrite=True)
    files = [crawl.folder / "out" / how for how in UNPACK]
    files[0].parent.mkdir()
    for file in files:
        file.write_text("of an earlier crawl\n")
    crawl.killed(Shop, stop="here third page")
    assert {file.read_text() for file in files} == {"of an earlier crawl\n"}
    crawl.run(Shop)
    assert found(crawl) == [ITEMS] * 3


def test_batches_are_full(crawl: Crawl) -> None:
    options = {"format": "csv", "postprocessing": plugin("Gzip")}
    name = "out/%(batch_id)03d.gz"
    crawl.settings["FEEDS"] = {name: {**options, "batch_item_count": 10}}
    for piece in (2, 3):
        crawl.killed(Shop, before=partial(die_at_piece, piece, "half written"))
    crawl.run(Shop)
    batches = [
        items_in(gzip.decompress(file.read_bytes()), "csv")
        for file in sorted((crawl.folder / "out").iterdir())
    ]
    assert [len(batch) for batch in batches] == [10] * 6 + [3]
    assert sorted(item for batch in batches for item in batch) == ITEMS
