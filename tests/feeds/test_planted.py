"""A job may come from a stranger: no stored text leads to a file of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bloomdupe.errors import BloomDupeError, FeedError, StoreError
from bloomdupe.feeds.feed_format import options_of
from bloomdupe.feeds.journal import Journal, packed
from bloomdupe.feeds.stored_feeds import StoredFeeds

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS: dict[str, Any] = {
    "format": "jsonlines",
    "fields": None,
    "item_export_kwargs": {},
    "batch_item_count": 0,
}
TEXT = b"a line of the stranger\n"
FEED = {"uri": "mine", "number": 0, "items": 1, "fields": None}
FEED |= {"ours": True, "options": options_of(OPTIONS)}


def planted(folder: Path, path: str, *, finished: bool) -> StoredFeeds:
    """Return the feeds of a job that has a line that no file has yet."""
    store = folder / "job" / "bloomdupe"
    left = StoredFeeds({}, store, resumed=True)
    left.lines.begin(anew=True)
    left.lines.add(packed([0], TEXT))
    file = {"path": path, "base": 0, "size": len(TEXT)}
    record = {
        "feeds": {"mine": {**FEED, "file": file}},
        "lines": left.lines.seal(),
        "feeds_finished": finished,
    }
    return StoredFeeds(record, store, resumed=True)


@pytest.mark.parametrize("finished", [False, True])
def test_a_stored_path_is_not_followed(tmp_path: Path, finished: bool) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(b"")
    left = planted(tmp_path, str(keys), finished=finished)
    with pytest.raises(FeedError, match="which this run lacks"):
        left.check({"other": (OPTIONS, None)})
    place = tmp_path / "mine"
    place.write_bytes(b"mine")
    with pytest.raises(FeedError, match="has other content"):
        left.check({"mine": (OPTIONS, place)})
    place.unlink()
    left.check({"mine": (OPTIONS, place)})
    left.take("mine", OPTIONS, place)
    assert keys.read_bytes() == b""
    assert place.read_bytes() == TEXT


def test_a_link_in_place_of_the_jobs_folder_is_not_followed(tmp_path: Path) -> None:
    left = StoredFeeds({}, tmp_path / "job" / "bloomdupe", resumed=True)
    mine = tmp_path / "home"
    mine.mkdir()
    left.directory.parent.mkdir()
    left.directory.symlink_to(mine)
    with pytest.raises(StoreError, match="is a link"):
        left.check({})
    assert not [*mine.iterdir()]


def test_a_link_in_the_jobs_folder_is_neither_read_nor_written(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(b"secret" * 100)
    link = tmp_path / "items.0"
    link.symlink_to(keys)
    with pytest.raises(BloomDupeError, match="symbolic link"):
        list(Journal(tmp_path, "items", {"size": 100}).records())
    file = Journal(tmp_path, "items", {})
    file.add(packed([0], TEXT))
    with pytest.raises(BloomDupeError, match="symbolic link"):
        file.seal()
    assert keys.read_bytes() == b"secret" * 100
