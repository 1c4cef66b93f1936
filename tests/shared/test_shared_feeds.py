"""Feeds of workers: `collect` writes and delivers them, and refuses changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spiders.feeds import Articles, Shop
from support.crawl import Crawl
from support.repetition import by_default
from support.shop import ITEMS, mails, read
from support.shop import PAGES as SHOP

from bloomdupe.moving.collecting import RECORD

pytestmark = pytest.mark.slow

JSON = {"format": "json"}
SUMS = {"format": "sums"}

PAGES = SHOP
SETTINGS = {
    "FEED_EXPORTERS": {"sums": "spiders.feeds.Sums"},
    "FEED_STORAGES": {"mail": "spiders.feeds.Mailbox"},
}


# Deliveries


@by_default
def test_a_storage_gets_the_whole_feed_when_the_crawl_has_ended(
    crawl: Crawl, folder: Path
) -> None:
    crawl.settings["FEEDS"] = {f"mail://{folder}": JSON}
    crawl.run(Articles, CLOSESPIDER_PAGECOUNT=3)
    assert "kept here until the crawl has ended" in crawl.collect()
    assert not mails(folder)
    crawl.finish(Articles)
    assert "delivered\n" in crawl.collect("--delete")
    assert mails(folder) == [ITEMS]
    crawl.collect()
    assert mails(folder) == [ITEMS]


# The origin of the settings


def test_a_feed_of_the_command_line_needs_no_settings(crawl: Crawl) -> None:
    feeds = ("items.csv", "items.json", "%(name)s.xml")
    crawl.finish(Shop, FEEDS={f: {"format": f.rpartition(".")[2]} for f in feeds})
    named = [word for feed in feeds for word in ("--feed", feed)]
    crawl.bloomdupe("collect", crawl.engine.job, "out", *named)
    out = crawl.folder / "out"
    for name in ("items.csv", "items.json", "shop.xml"):
        assert read(out / name) == ITEMS


def test_only_the_settings_say_how_many_items_a_batch_has(crawl: Crawl) -> None:
    feed = "%(batch_id)d.json"
    crawl.finish(Shop, FEEDS={feed: {"format": "json", "batch_item_count": 9}})
    for named in ((), ("--feed", feed)):
        command = ("collect", crawl.engine.job, "out", *named)
        said = crawl.bloomdupe(*command, code=1)
        assert said.endswith(": run this in the folder of the project\n")


def test_items_of_a_class_need_the_project(crawl: Crawl) -> None:
    crawl.finish(Articles, FEEDS={"a.csv": {"format": "csv"}})
    command = ("collect", crawl.engine.job, "csv", "--feed", "a.csv")
    refused = crawl.bloomdupe(*command, code=1)
    assert "cannot be read here" in refused
    assert "in the folder of the project" in refused


def test_passwords_come_from_the_settings_here(crawl: Crawl, folder: Path) -> None:
    crawl.settings["FEEDS"] = {f"mail://user:hidden7@{folder}": SUMS}
    crawl.finish(Articles)
    (store, *_) = crawl.engine.records(crawl.folder, "store")
    assert "hidden7" not in json.dumps(store)
    said = crawl.collect(code=1)  # this storage knows no users
    assert f"No such file or directory: 'user:hidden7@{folder}'" in said
    assert "hidden7" not in (crawl.folder / RECORD).read_text()
