"""Feeds for storages: the job keeps their lines safe, and delivers them once."""

from __future__ import annotations

import json
import shutil
import stat
from typing import TYPE_CHECKING, Any

import pytest
from spiders.feeds import (
    Articles,
    close_mailbox,
    stop_while_s3_reads,
)
from support.ports import kept_port
from support.repetition import repeated
from support.shared_data import needs_package
from support.shop import ITEMS, NEW, items_in, items_of, mails, read
from support.shop import PAGES as SHOP

if TYPE_CHECKING:
    from pathlib import Path

    from support.crawl import Crawl

pytestmark = pytest.mark.slow

JSON = {"format": "json"}
PAGES = SHOP
THIRD = "here third page"
SECRET = "hidden7"  # noqa: S105 - of a server on loopback
SETTINGS = {
    # A checkpoint after each page.
    "BLOOMDUPE_CHECKPOINT_INTERVAL": 0.001,
    "CONCURRENT_REQUESTS": 1,
    "FEED_EXPORTERS": {"sums": "spiders.feeds.Sums"},
    "FEED_STORAGES": {"mail": "spiders.feeds.Mailbox"},
}


def test_a_password_is_not_shown_when_a_delivery_fails(crawl: Crawl) -> None:
    uri = f"ftp://user:{SECRET}@127.0.0.1:{kept_port()}/items.json"
    crawl.settings["FEEDS"] = {uri: JSON}
    # Scrapy shows the settings first.
    log = crawl.run(Articles, status=1).log.partition("Enabled extensions")[2]
    assert "Error storing the feed (63 items) in: ftp://127.0.0.1" in log
    assert "when the same command is run again" in log
    assert SECRET not in log
    for file in crawl.folder.rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()


def test_a_feed_comes_to_s3_though_the_upload_is_killed(
    crawl: Crawl, request: pytest.FixtureRequest
) -> None:
    needs_package("moto", "boto3")
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    request.addfinalizer(server.stop)
    where = {
        "endpoint_url": "http://{}:{}".format(*server.get_host_and_port()),
        "region_name": "us-east-1",
    }
    login = {"aws_access_key_id": "key", "aws_secret_access_key": SECRET}
    client = boto3.client("s3", **where, **login)
    request.addfinalizer(client.close)
    client.create_bucket(Bucket="bucket")

    def delivered() -> object:
        answer = client.get_object(Bucket="bucket", Key="items")
        return items_in(answer["Body"].read(), "json")

    crawl.settings["FEEDS"] = {"s3://bucket/items": JSON}
    crawl.settings |= {name.upper(): value for name, value in login.items()}
    crawl.settings |= {f"AWS_{name.upper()}": value for name, value in where.items()}
    crawl.killed(Articles, stop=THIRD)
    waiting = [*(crawl.folder / "job" / "bloomdupe.feeds").iterdir()]
    assert stat.S_IMODE(waiting[0].parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in waiting} == {0o600}
    crawl.killed(Articles, stop="here upload", before=stop_while_s3_reads)
    assert "Contents" not in client.list_objects_v2(Bucket="bucket")
    log = crawl.run(Articles).log
    assert "Stored json feed (63 items) in: s3://bucket/items" in log
    assert delivered() == ITEMS
    # New work of a finished job is added; the object is replaced by all of it.
    crawl.run(Articles, starts=("/", "/new"))
    assert delivered() == NEW


def test_standard_output_gets_the_whole_feed_at_the_end(crawl: Crawl) -> None:
    crawl.settings |= {"FEEDS": {"stdout:": JSON}, "LOG_FILE": "log"}
    crawl.killed(Articles, stop=THIRD)
    assert not crawl.run(Articles, CLOSESPIDER_PAGECOUNT=1).log
    log = (crawl.folder / "log").read_text()
    assert "it is stored in stdout: when the crawl has finished" in log
    run = crawl.killed(Articles, stop="after record a feed")
    assert items_in(run.log.encode(), "json") == ITEMS
    assert not crawl.run(Articles).log
    added = crawl.run(Articles, starts=("/", "/new")).log
    assert items_in(added.encode(), "json") == items_of("new")


STEPS = ("open", "export", "sync", "record", "store")
"""The steps of the delivery of a local file, after each of which the process dies."""
LOCAL = [
    ("items.json", {}),
    ("items.marshal", {"overwrite": True}),
    ("items.sums", {}),
    ("%(batch_time)s.csv", {"batch_item_count": 40}),
]


@pytest.mark.parametrize("feed", repeated(LOCAL, 2))
def test_a_local_file_gets_it_once_though_the_process_dies_at_any_step(
    crawl: Crawl, feed: tuple[str, dict[str, Any]]
) -> None:
    uri, options = feed
    kind = uri.rpartition(".")[2]
    crawl.settings["FEEDS"] = {f"out/{uri}": {"format": kind, **options}}
    for step in STEPS:
        crawl.killed(Articles, stop=f"after {step} a feed")
    for _ in range(2):
        crawl.run(Articles)
    files = [*(crawl.folder / "out").iterdir()]
    assert read(*files) == ITEMS
    assert len(files) == (2 if "batch_item_count" in options else 1)


@pytest.mark.parametrize("has_backup", [True, False])
def test_a_store_that_has_gone_back_is_delivered_anew(
    crawl: Crawl, *, has_backup: bool
) -> None:
    """It is put back from a backup; or it is deleted, so the crawl begins anew."""
    place, store = crawl.folder / "items.json", crawl.folder / "job" / "bloomdupe"
    batch = crawl.folder / "1.json"
    crawl.settings["FEEDS"] = {
        "items.json": {**JSON, "overwrite": True},
        "%(batch_id)d.json": {**JSON, "batch_item_count": 4},
        "old.sums": {"format": "sums"},
    }
    old = crawl.folder / "old.sums"
    old.write_text("old\n")
    second = crawl.folder / "2.json"
    second.write_text("[]\n")
    crawl.killed(Articles, stop=THIRD)
    backup = shutil.copytree(store, crawl.folder / "backup")
    crawl.run(Articles)
    place.unlink()
    shutil.rmtree(store)
    if has_backup:
        backup.rename(store)
    else:
        batch.unlink()
        old.write_text("old\n")
        second.write_text("[]\n")
    crawl.run(Articles)
    assert read(place) == ITEMS
    begin, content = old.read_bytes().split(b"\n", 1)
    assert (begin, items_in(content, "sums")) == (b"old", ITEMS)
    assert len(read(batch)) == 4
    assert len(json.loads(second.read_text().removeprefix("[]\n"))) == 4


@pytest.mark.parametrize("kind", ["json", "sums"])
def test_a_storage_of_the_user_gets_the_whole_file(
    crawl: Crawl, tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "mailbox"
    place.mkdir()
    crawl.settings["FEEDS"] = {f"mail://{place}": {"format": kind}}
    crawl.killed(Articles, stop=THIRD)
    run = crawl.run(Articles, before=close_mailbox, status=1)
    assert "the mailbox is closed" in run.log
    assert not [*place.iterdir()]
    run = crawl.refused(Articles, FEEDS=None)
    assert f"has begun with a feed mail://{place}, which this run lacks" in run.log
    # It was stored, and nothing says so: the storage gets it twice.
    crawl.killed(Articles, stop="here delivered")
    for _ in range(2):
        crawl.run(Articles)
    assert mails(place, kind) == [ITEMS, ITEMS]
