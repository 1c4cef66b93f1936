"""A job may come from a stranger: no stored text leads to a file of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bloomdupe.errors import BloomDupeError, FeedError, StoreError
from bloomdupe.feeds.feed_format import options_of
from bloomdupe.feeds.shared_feed import given_options
from bloomdupe.feeds.spool import Spool
from bloomdupe.feeds.stored_feeds import StoredFeeds
from bloomdupe.feeds.uri import fits

OPTIONS: dict[str, Any] = {
    "format": "jsonlines",
    "fields": None,
    "item_export_kwargs": {},
    "batch_item_count": 0,
}
FEED = {"uri": "mine", "file": 0, "options": options_of(OPTIONS)}
STATE = {"base": 0, "tail": "", "end": "", "closing": 0, "old": None, "held": 0}


def planted(folder: Path, file: dict[str, Any], *, finished: bool) -> StoredFeeds:
    """Return the feeds of a job that names a file; this run has one feed, `mine`."""
    record = {
        "feeds": {"mine": FEED},
        "files": [{**STATE, **file}],
        "feeds_finished": finished,
    }
    pieces = {"feed0": b"a line of the stranger\n"}
    store = folder / "job" / "bloomdupe"
    store.mkdir(parents=True)
    left = StoredFeeds(record, pieces, store, folder, resumed=True)
    left.expect([str(folder / "mine")])
    return left


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(
    "path", ["{folder}/keys", "keys", "mine/../keys", "../{name}/keys"]
)
def test_a_stored_path_is_not_followed(
    tmp_path: Path, path: str, finished: bool
) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(b"")
    path = path.format(folder=tmp_path, name=tmp_path.name)
    left = planted(tmp_path, {"path": path}, finished=finished)
    for step in (left.check, left.finish):
        with pytest.raises(FeedError, match="no feed of this run names"):
            step()
    assert keys.read_bytes() == b""


def test_the_file_that_the_feed_names_is_completed(tmp_path: Path) -> None:
    """The control: the same record, with the place of the feed."""
    left = planted(tmp_path, {"path": "mine", "place": "/keys"}, finished=False)
    left.check()
    left.finish()
    assert (tmp_path / "mine").read_bytes() == b"a line of the stranger\n"


@pytest.mark.parametrize(
    "name", ["../../keys", "/keys", "folder/keys", "..", ".", "", 1, None]
)
def test_a_stored_name_stays_in_the_spool(tmp_path: Path, name: object) -> None:
    with pytest.raises(FeedError, match="file of its spool"):
        planted(tmp_path, {"path": name, "spooled": True}, finished=False)
    spool = Spool(tmp_path, repr, repr)  # type: ignore[arg-type]
    with pytest.raises(FeedError, match="file of its spool"):
        spool.place(name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("uri", "template", "expected"),
    [
        ("s3://mine/a-2.csv", "s3://mine/a-%(batch_id)d.csv", True),
        ("s3://mine/2026-01-01T00-00-00", "s3://mine/%(time)s", True),
        ("s3://mine/a/b.csv", "s3://mine/%(category)s.csv", True),  # known late
        ("../mine", "../mine", True),
        ("s3://stranger/a-2.csv", "s3://mine/a-%(batch_id)d.csv", False),
        ("s3://mine/a-2/x.csv", "s3://mine/a-%(batch_id)d.csv", False),
        ("out/../../keys.csv", "out/%(category)s.csv", False),
        ("out/..", "out/%(time)s", False),
    ],
)
def test_a_stored_uri_fits_the_template_of_its_feed(
    uri: str, template: str, expected: bool
) -> None:
    assert fits(uri, template) == expected


def test_a_link_in_place_of_the_spool_is_not_followed(tmp_path: Path) -> None:
    left = planted(tmp_path, {"path": "keys", "spooled": True}, finished=False)
    mine = tmp_path / "home"
    mine.mkdir()
    left.spool.symlink_to(mine)
    with pytest.raises(StoreError, match="is a link"):
        left.check()
    assert not [*mine.iterdir()]


def test_a_link_in_the_spool_is_neither_read_nor_written(tmp_path: Path) -> None:
    left = planted(tmp_path, {"path": "keys", "spooled": True}, finished=False)
    keys = tmp_path / "keys"
    keys.write_bytes(b"")
    left.spool.mkdir()
    (left.spool / "keys").symlink_to(keys)
    with pytest.raises(BloomDupeError, match="symbolic link"):
        left.finish()
    assert keys.read_bytes() == b""
    with pytest.raises(BloomDupeError, match="symbolic link"):
        Spool(left.spool, repr, repr).open("keys")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plugin", "taken"),
    [("scrapy.extensions.postprocessing.GzipPlugin", True), ("antigravity.x", False)],
)
def test_a_plugin_that_redis_names_is_not_imported(plugin: str, taken: bool) -> None:
    recorded = {"postprocessing": [plugin]}
    if taken:
        assert given_options("mine", recorded, None)["postprocessing"] == [plugin]
    else:
        with pytest.raises(FeedError, match="only the settings of its project"):
            given_options("mine", recorded, None)
