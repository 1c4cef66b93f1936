"""The feeds of Scrapy's documentation, on disk and on Redis, beside Scrapy's bytes."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
from collections import Counter
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.settings import Settings
from scrapy.utils.misc import load_object
from spiders.feeds import Articles, Shop, Uneven, Unstorable
from spiders.follow import Follow
from support.shop import FOUND, ITEMS, READERS, read
from support.shop import PAGES as SHOP

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.crawl import Crawl

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("engine")]

PAGES = SHOP
PLUGINS = "scrapy.extensions.postprocessing."
ALL = {"all.jsonl": {"format": "jsonlines", "encoding": "utf-8"}}
"""The feed that says which items there are, in which order."""
OPENED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.decompress,
    "bz2": bz2.decompress,
    "xz": lzma.decompress,
}
SPECIAL = {"item_classes": ["spiders.feeds.Special"], "fields": ["path"]}
FEEDS: dict[str, dict[str, Any]] = {
    **ALL,
    "ascii.jsonl": {"format": "jsonl"},
    "items.json": {"format": "json", "indent": 4},
    "lines.json": {"format": "json", "encoding": "utf-8", "indent": None},
    "items.csv": {"format": "csv"},
    "mapped.csv": {"format": "csv", "fields": {"number": "No", "path": "Where"}},
    "listed.csv": {"format": "csv", "fields": ["text", "path", "missing"]},
    "arguments.csv": {
        "format": "csv",
        "item_export_kwargs": {"delimiter": ";", "include_headers_line": False},
    },
    "latin.csv": {"format": "csv", "encoding": "latin-1", "fields": ["text"]},
    "items.xml": {
        "format": "xml",
        "indent": 2,
        "item_export_kwargs": {"root_element": "shop", "item_element": "thing"},
    },
    "items.pickle": {"format": "pickle"},
    "items.marshal": {"format": "marshal", "fields": ["path", "number"]},
    "items.json.gz": {
        "format": "json",
        "postprocessing": [f"{PLUGINS}GzipPlugin"],
        "gzip_compresslevel": 1,
    },
    "items.csv.bz2": {"format": "csv", "postprocessing": [f"{PLUGINS}Bz2Plugin"]},
    "items.xml.xz": {"format": "xml", "postprocessing": [f"{PLUGINS}LZMAPlugin"]},
    "special.csv": {"format": "csv", **SPECIAL},
    "special.sums": {"format": "jsonl", **SPECIAL},
    "plain.xml": {"format": "xml", "item_classes": ["builtins.dict"]},
}


def scrapys(items: list[Any], options: dict[str, Any]) -> bytes:
    """Return the bytes that Scrapy's own exporter writes for these items."""
    classes = Settings().getwithbase("FEED_EXPORTERS")
    file = BytesIO()
    exporter = load_object(classes[options["format"]])(
        file,
        fields_to_export=options.get("fields"),
        encoding=options.get("encoding"),
        indent=options.get("indent", 0),
        **options.get("item_export_kwargs", {}),
    )
    exporter.start_exporting()
    for item in items:
        exporter.export_item(item)
    exporter.finish_exporting()
    data: bytes = file.getvalue()
    return data


def items_of(crawl: Crawl) -> list[Any]:
    """Return all items in the order in which they were put out."""
    lines = (crawl.folder / "all.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def content_of(place: Path) -> bytes:
    data = place.read_bytes()
    return OPENED.get(place.suffix[1:], bytes)(data)


def finish(crawl: Crawl, spider: Any, **options: Any) -> None:
    """Let the crawl finish, on Redis with two workers and `collect`."""
    crawl.finish(spider, 1 + crawl.engine.collects, **options)
    crawl.collect()


def test_the_bytes_are_those_of_scrapys_exporters(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = FEEDS
    finish(crawl, Uneven)
    items = items_of(crawl)
    assert len(items) == len(ITEMS) + 2 * len(FOUND)
    special = [item for item in items if "number" not in item]
    assert sorted(item["path"] for item in special) == [path[1:] for path in FOUND]
    plain = [item for item in items if "number" in item]
    of_class = {"special": special, "plain": plain}
    for name, options in FEEDS.items():
        some = of_class.get(name.partition(".")[0], items)
        found, expected = content_of(crawl.folder / name), scrapys(some, options)
        if name.endswith("marshal"):  # its bytes depend on who else has a text
            assert READERS["marshal"](found) == READERS["marshal"](expected)
        else:
            assert found == expected, name


def test_batches_are_full_and_valid(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = {
        **ALL,
        "%(name)s-%(batch_id)03d.json": {"format": "json", "batch_item_count": 10},
        "%(batch_id)d.csv": {"format": "csv", "batch_item_count": 21},
        "%(batch_time)s.xml.gz": {
            "format": "xml",
            "batch_item_count": 40,
            "postprocessing": [f"{PLUGINS}GzipPlugin"],
        },
    }
    finish(crawl, Shop)
    items = items_of(crawl)
    for names, kind, size in (
        ([f"shop-{number:03}.json" for number in range(1, 8)], "json", 10),
        (["1.csv", "2.csv", "3.csv"], "csv", 21),
        (sorted(p.name for p in crawl.folder.glob("*.xml.gz")), "xml", 40),
    ):
        for number, name in enumerate(names):
            part = items[number * size : (number + 1) * size]
            expected = scrapys(part, {"format": kind})
            assert content_of(crawl.folder / name) == expected
        assert len(names) == -(-len(items) // size)


def test_a_uri_with_a_time_names_one_file(crawl: Crawl) -> None:
    crawl.settings["FEEDS"] = {"%(time)s.json": {"format": "json"}}
    crawl.run(Shop, CLOSESPIDER_PAGECOUNT=3)
    crawl.collect()
    finish(crawl, Shop)
    (place,) = crawl.folder.glob("*T*.json")
    assert re.fullmatch(r"[0-9T+-]+\.json", place.name)
    assert read(place) == ITEMS


@pytest.mark.parametrize("wanted", [True, False])
def test_an_empty_feed_is_stored_if_it_is_wanted(crawl: Crawl, wanted: bool) -> None:
    crawl.settings |= {
        "FEEDS": {
            "none.json": {"format": "json"},
            "none.json.gz": FEEDS["items.json.gz"],
            "none.csv": {"format": "csv"},
        },
        "FEED_STORE_EMPTY": wanted,
    }
    finish(crawl, Follow)
    found = {place.name for place in crawl.folder.glob("none.*")}
    assert found == ({*crawl.settings["FEEDS"]} if wanted else set())
    if wanted:
        for name in ("none.json", "none.json.gz"):
            expected = scrapys([], {"format": "json"})
            assert content_of(crawl.folder / name) == expected


def test_a_parameter_that_the_spider_never_has_is_refused(crawl: Crawl) -> None:
    feeds = {"%(category)s.jsonl": {"format": "jsonl"}}
    refused = crawl.refused(Articles, FEEDS=feeds).log
    assert "FEEDS: %(category)s.jsonl needs 'category'" in refused


def test_a_delivery_is_kept_while_its_exporter_fails_for_an_item(
    crawl: Crawl,
) -> None:
    crawl.settings["FEEDS"] = {
        "items.csv": {"format": "csv"},
        "items.jsonl": {"format": "jsonl"},
        "items.sums": {"format": "sums"},
    }
    crawl.settings["FEED_EXPORTERS"] = {
        "sums": "spiders.feeds.Quotients",
        "csv": "scrapy.exporters.CsvItemExporter",
    }
    on_redis = crawl.engine.collects
    log = crawl.run(Articles, status=0 if on_redis else 1).log
    said = crawl.collect(code=1) or log
    assert "ZeroDivisionError" in said
    early, _, late = said.partition("Error storing the feed (63 items) in: items.sums")
    assert on_redis or "Closing spider (finished)" in early
    assert late
    assert not (crawl.folder / "items.sums").exists()
    assert read(crawl.folder / "items.csv") == ITEMS
    crawl.settings["FEED_EXPORTERS"]["sums"] = "spiders.feeds.Sums"
    crawl.run(Articles)
    crawl.collect()
    assert read(crawl.folder / "items.sums") == ITEMS


def test_a_value_that_cannot_be_stored_is_a_text_or_its_item_is_lacking(
    crawl: Crawl,
) -> None:
    crawl.settings["FEEDS"] = {"items.json": {"format": "json"}}
    run = crawl.run(Unstorable)
    crawl.collect()
    assert "it has a value of type bytearray" in run.log
    found = json.loads((crawl.folder / "items.json").read_text("utf-8"))
    assert Counter(item["x"] for item in found) == {"a/b": 21, "dict_keys([])": 21}
