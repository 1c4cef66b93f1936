"""Compressed feeds in real crawls: small files, and every item in them once."""

from __future__ import annotations

import gzip
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from spiders.feeds import INSTANTS, Shop, die_at_piece, small
from support.shop import ITEMS, items_in

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


def is_durable(crawl: Crawl, pages: int) -> bool:
    return crawl.durable_pages == pages


@pytest.mark.parametrize("instant", INSTANTS)
def test_every_item_is_written_once_after_a_kill_at_any_time(
    crawl: Crawl, instant: str
) -> None:
    for number in (2, 6):
        crawl.killed(Shop, before=partial(die_at_piece, number, instant))
    crawl.run(Shop, before=small)
    assert found(crawl) == [ITEMS] * 2


def test_a_stop_writes_all_there_is(crawl: Crawl) -> None:
    crawl.run(Shop, CLOSESPIDER_PAGECOUNT=5)
    first = found(crawl)[0]
    assert found(crawl) == [first] * 2
    assert len(first) >= 15
    crawl.run(Shop)
    assert found(crawl) == [ITEMS] * 2
