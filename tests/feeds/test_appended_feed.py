"""One output file: changes by other programs are detected, and left alone."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from feeds.one_feed import OPTIONS, OneFeed

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.feeds.feed_format import check_writable, options_of, with_parameters

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BASE = b"".join(b"line %d\n" % number for number in range(1000))
PIECE = b"one\ntwo\n"


def left(place: Path, written: int) -> dict[str, Any]:
    """Leave a file as a run does that dies after so many bytes of the last piece."""
    run = OneFeed(place)
    run.write(BASE)
    record = run.commit(PIECE)
    run.feed.append()
    run.feed.close()
    os.truncate(place, len(BASE) + written)
    return record


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "items"


def cut(place: Path) -> None:
    os.truncate(place, len(BASE) - 1)


def delete(place: Path) -> None:
    place.unlink()


def lengthen(place: Path) -> None:
    os.truncate(place, len(BASE) + len(PIECE))
    with place.open("ab") as file:
        file.write(b"mine\n")


def append(place: Path) -> None:
    os.truncate(place, len(BASE))
    with place.open("ab") as file:
        file.write(b"mine\n")


def put_folder(place: Path) -> None:
    place.unlink()
    place.mkdir()


def put_other(place: Path) -> None:
    place.rename(place.with_name("moved"))
    place.write_bytes(b"other")


def content_of(place: Path) -> bytes | None:
    return place.read_bytes() if place.is_file() else None


CHANGES = [
    (cut, "was cut to 8,889 bytes"),
    (delete, "was deleted"),
    (lengthen, "was lengthened to 8,903 bytes"),
    (append, "has other content after 8,890 bytes"),
    (put_folder, "was replaced by something that is not a file"),
]


@pytest.mark.parametrize("written", [0, len(PIECE)])
@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_changes_are_refused_and_left_alone(
    place: Path, change: Callable[[Path], None], said: str, written: int
) -> None:
    state = left(place, written)
    change(place)
    content = content_of(place)
    with pytest.raises(FeedChangedError, match=re.escape(said)) as caught:
        OneFeed(place, state).go_on()
    assert str(place) in str(caught.value)
    assert "which left 8898 bytes in it. Put it back as it was" in str(caught.value)
    assert content_of(place) == content


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (cut, "was cut"),
        (delete, "was deleted"),
        (append, "has other content"),
        (put_other, "was replaced"),
    ],
)
def test_a_file_changed_while_it_is_written_is_left_alone(
    place: Path, change: Callable[[Path], None], said: str
) -> None:
    run = OneFeed(place)
    run.write(BASE)
    run.commit(PIECE)
    change(place)
    content = content_of(place)
    with pytest.raises(FeedChangedError, match=said):
        run.feed.append()
    assert content_of(place) == content


def test_options_are_the_same_in_every_process() -> None:
    class Dialect:
        pass

    def stored() -> dict[str, Any]:
        values = {"dialect": Dialect(), "quote": [Dialect, len], "end": (b"x", {1: 2})}
        return options_of({**OPTIONS, "item_export_kwargs": values})

    assert json.loads(json.dumps(stored())) == stored()
    assert " at 0x" not in str(stored())


def test_all_parameters_but_time_and_batch_are_filled_in() -> None:
    values = {"c": "books", "n": 7, "time": "now", "batch_time": "now", "batch_id": 1}
    template = "%20/%(c)s-%(n)03d/%(time).10s-%(batch_time)s-%(batch_id)05d"
    assert with_parameters(template, values) == (
        "%20/books-007/%(time).10s-%(batch_time)s-%(batch_id)05d"
    )
    with pytest.raises(KeyError):
        with_parameters("%(other)s", values)


def test_a_place_that_cannot_be_written_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_writable(place / "later" / "items")
    monkeypatch.setattr(os, "access", lambda found, _: found != place.parent)
    with pytest.raises(FeedError, match=f"items cannot be written: {place.parent} is"):
        check_writable(place / "later" / "items")
