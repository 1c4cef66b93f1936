"""A job may come from a stranger: no stored text leads to a file of the user."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from feeds.one_feed import OneFeed

from bloomdupe.errors import BloomDupeError, FeedError, StoreError
from bloomdupe.feeds.journal import Journal, packed
from bloomdupe.feeds.stored_feeds import StoredFeeds

if TYPE_CHECKING:
    from pathlib import Path

TEXT = b"a line of the stranger\n"
NUMBERS = ("journal", "begin", "end", "batch")


@pytest.mark.parametrize("finished", [False, True])
def test_a_stored_path_is_not_followed(tmp_path: Path, finished: bool) -> None:
    keys, place = tmp_path / "keys", tmp_path / "mine"
    keys.write_bytes(b"")
    record = OneFeed(place).commit(TEXT)
    record["feeds_finished"] = finished
    record["feeds"]["f"]["uri"] = record["feeds"]["f"]["path"] = str(keys)
    run = OneFeed(place, record)
    with pytest.raises(FeedError, match="which this run lacks"):
        run.left.check([])
    place.write_bytes(b"mine")
    with pytest.raises(FeedError, match="has other content"):
        run.go_on()
    place.unlink()
    run.go_on()
    assert keys.read_bytes() == b""
    assert place.read_bytes() == TEXT


def test_a_link_in_place_of_the_jobs_folder_is_not_followed(tmp_path: Path) -> None:
    left = StoredFeeds({}, tmp_path / "job" / "bloomdupe", resumed=True)
    mine = tmp_path / "home"
    mine.mkdir()
    left.directory.parent.mkdir()
    left.directory.symlink_to(mine)
    with pytest.raises(StoreError, match="is a link"):
        left.check([])
    assert not [*mine.iterdir()]


def test_what_is_delivered_is_said_by_numbers(tmp_path: Path) -> None:
    left = StoredFeeds({}, tmp_path / "job" / "bloomdupe", resumed=True)
    left.delivered.put("f", left.delivered.get("f", 0))
    others = [dict.fromkeys(NUMBERS, other) for other in ("x", "1", 1.5, math.inf)]
    for planted in (1, {"end": 1}, *others):
        (left.directory / "delivered").write_text(json.dumps({"f": planted}))
        with pytest.raises(FeedError, match="cannot be read"):
            left.delivered.go_back()


def test_a_link_in_the_jobs_folder_is_neither_read_nor_written(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(b"secret" * 100)
    link = tmp_path / "items"
    link.symlink_to(keys)
    with pytest.raises(BloomDupeError, match="symbolic link"):
        list(Journal(link, {"size": 100}).of(0))
    file = Journal(link, {})
    file.add(packed([0], TEXT))
    with pytest.raises(BloomDupeError, match="symbolic link"):
        file.seal()
    assert keys.read_bytes() == b"secret" * 100
