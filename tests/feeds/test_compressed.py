"""Compressed feeds in real crawls: small files, and every item in them once."""

from __future__ import annotations

import gzip
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


@pytest.mark.parametrize("instant", INSTANTS)
def test_every_item_is_written_once_after_a_kill_at_any_time(
    crawl: Crawl, instant: str
) -> None:
    for number in (2, 6):
        crawl.killed(Shop, before=partial(die_at_piece, number, instant))
    crawl.run(Shop, before=small)
    assert found(crawl) == [ITEMS] * 2
