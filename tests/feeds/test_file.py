"""One output file: changes by other programs are detected, and left alone."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.feeds.content import Content, digest
from bloomdupe.feeds.feed_format import options_of
from bloomdupe.feeds.file import FeedFile
from bloomdupe.feeds.stored_feeds import StoredFeeds, change_of
from bloomdupe.feeds.uri import with_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = b"".join(b"line %d\n" % number for number in range(1000))
PIECE = b"one\ntwo\n"
OPTIONS: dict[str, Any] = {
    "format": "jsonlines",
    "fields": None,
    "item_export_kwargs": {},
    "batch_item_count": 0,
}
FEED: dict[str, Any] = {"uri": "f", "file": 0, "options": options_of(OPTIONS)}


def left(place: Path, written: int) -> dict[str, Any]:
    """Leave a file as a run does that dies after so many bytes of the last piece."""
    file = FeedFile(Content.begin(str(place), place, overwrite=False))
    write(file, BASE)
    file.sync()
    file.take(file.content.with_more(PIECE, b""))
    state = file.content.record
    file.append()
    file.close()
    os.truncate(place, len(BASE) + written)
    return state


def write(file: FeedFile, piece: bytes, closing: bytes = b"") -> None:
    file.take(file.content.with_more(piece, closing))
    file.append()


def stored(record: dict[str, Any], piece: bytes | None = None) -> StoredFeeds:
    pieces = {} if piece is None else {"feed0": piece}
    store = Path("/nowhere")
    here = Path.cwd()
    feeds = StoredFeeds(record, pieces, store, here, resumed=True)
    feeds.expect([file["path"] for file in record.get("files", [])])
    return feeds


def resumed(state: dict[str, Any], piece: bytes = PIECE) -> FeedFile:
    record = {"feeds": {"f": FEED}, "files": [state]}
    left = stored(record, piece)
    left.check()
    left.finish()
    file = left.take("f", OPTIONS).file
    assert file is not None
    return file


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "items"


@pytest.mark.parametrize("written", range(len(PIECE) + 1))
def test_missing_lines_are_written(place: Path, written: int) -> None:
    file = resumed(left(place, written))
    assert place.read_bytes() == BASE + PIECE
    write(file, b"three\n")
    assert place.read_bytes() == BASE + PIECE + b"three\n"


def test_zeros_after_a_power_cut_are_ours(place: Path) -> None:
    state = left(place, 3)
    os.truncate(place, len(BASE) + 6)
    resumed(state)
    assert place.read_bytes() == BASE + PIECE


@pytest.mark.parametrize("length", [1, 7, 8, 100])
def test_a_piece_ends_with_its_closing_bytes(place: Path, length: int) -> None:
    file = FeedFile(Content.begin(str(place), place, overwrite=False))
    write(file, b"[" + b"1" * length, b"]]]")
    file.sync()
    write(file, b",2", b"]]]")
    assert place.read_bytes() == b"[" + b"1" * length + b",2]]]"
    assert file.content.size == len(place.read_bytes())
    file.close()


@pytest.mark.parametrize("times", [1, 2])
def test_a_file_is_cut_back_to_the_settled_lines(place: Path, times: int) -> None:
    mark = (len(BASE) - 7, digest(BASE[:-7][-4096:]))
    state = {**left(place, 4), "mark": mark}
    for _ in range(times):  # the run may die again before the next commit
        file = resumed(state)
        assert place.read_bytes() == BASE[:-7]
        file.close()
    write(file, b"more")
    assert place.read_bytes() == BASE[:-7] + b"more"
    file.close()


def test_a_file_without_settled_lines_is_removed(place: Path) -> None:
    state = {**left(place, 4), "mark": (0, digest(b""))}
    for _ in range(2):
        unsettled = stored({"feeds": {}, "files": [state]}, PIECE)
        unsettled.check()
        unsettled.finish()
        assert not place.exists()


CLOSED = b"[1,2]"
NEXT = b",3,4,5]"


def left_closed(place: Path) -> dict[str, Any]:
    """Leave a file with its closing bytes, and a piece that is not written yet."""
    file = FeedFile(Content.begin(str(place), place, overwrite=False))
    write(file, CLOSED[:-1], CLOSED[-1:])
    file.sync()
    file.close()
    return file.content.with_more(NEXT[:-1], NEXT[-1:]).record


@pytest.mark.parametrize("written", range(len(NEXT) + 1))
def test_a_piece_replaces_the_end_of_the_file(place: Path, written: int) -> None:
    state = left_closed(place)
    with place.open("r+b") as stream:
        stream.seek(len(CLOSED) - 1)
        stream.write(NEXT[:written])
    file = resumed(state, NEXT)
    assert place.read_bytes() == CLOSED[:-1] + NEXT
    write(file, b",6", b"]")
    assert place.read_bytes() == b"[1,2,3,4,5,6]"
    file.close()


def test_a_power_cut_may_leave_a_piece_in_any_order(place: Path) -> None:
    state = left_closed(place)
    place.write_bytes(b"[1,2" + b"]" + b"\0" * 4 + b"5]")
    file = resumed(state, NEXT)
    assert place.read_bytes() == CLOSED[:-1] + NEXT
    file.close()


@pytest.mark.parametrize("overwritten", [0, 3, len(PIECE)])
def test_the_replaced_file_goes_with_the_first_piece(
    place: Path, overwritten: int
) -> None:
    place.write_bytes(b"of an earlier crawl\n")
    file = FeedFile(Content.begin(str(place), place, overwrite=True))
    content = file.content.with_more(PIECE, b"")
    assert place.read_bytes() == b"of an earlier crawl\n"
    if overwritten:
        place.write_bytes(PIECE[:overwritten])
    resumed(content.record).close()
    assert place.read_bytes() == PIECE


@pytest.mark.parametrize("edit", [b"other words", b"of an earlier crawl\nmine\n"])
def test_a_changed_file_is_not_replaced(place: Path, edit: bytes) -> None:
    place.write_bytes(b"of an earlier crawl\n")
    content = Content.begin(str(place), place, overwrite=True).with_more(PIECE, b"")
    place.write_bytes(edit)
    with pytest.raises(FeedChangedError, match=r"was appended to|has grown"):
        resumed(content.record)
    assert place.read_bytes() == edit
    for other in range(8):  # the digest may be smaller or larger
        place.write_bytes(b"of an earlier craw%d\n" % other)
        with pytest.raises(FeedChangedError, match="has grown"):
            resumed(content.record)
    place.unlink()
    resumed(content.record).close()
    assert place.read_bytes() == PIECE


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


def replace(place: Path) -> None:
    place.write_bytes(b"x" * len(BASE))


def edit(place: Path) -> None:
    place.write_bytes(place.read_bytes().replace(b"999", b"998"))


def put_folder(place: Path) -> None:
    place.unlink()
    place.mkdir()


def put_fifo(place: Path) -> None:
    place.unlink()
    os.mkfifo(place)


CHANGES = [
    (cut, "was cut to 8,889 bytes"),
    (delete, "was deleted"),
    (lengthen, "has grown to 8,903 bytes"),
    (append, "was appended to"),
    (replace, "was replaced or edited"),
    (edit, "was replaced or edited"),
    (put_folder, "was replaced by something that is not a file"),
    (put_fifo, "was replaced by something that is not a file"),
]


@pytest.mark.parametrize("written", [0, 4, len(PIECE)])
@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_changes_are_refused_and_left_alone(
    place: Path, change: Callable[[Path], None], said: str, written: int
) -> None:
    state = left(place, written)
    change(place)
    content = place.read_bytes() if place.is_file() else None
    with pytest.raises(FeedChangedError, match=re.escape(said)) as caught:
        resumed(state)
    assert str(place) in str(caught.value)
    assert "Put it back as it was" in str(caught.value)
    assert (place.read_bytes() if place.is_file() else None) == content


def test_the_error_tells_the_size_of_the_file_with_its_closing(place: Path) -> None:
    file = FeedFile(Content.begin(str(place), place, overwrite=False))
    write(file, b"[1", b"]")
    file.sync()
    file.close()
    place.unlink()
    with pytest.raises(FeedChangedError, match="which left 3 bytes in it"):
        resumed(file.content.record, b"")


@pytest.mark.parametrize("private", [True, False])
def test_only_a_private_file_and_its_folder_are_private(
    tmp_path: Path, private: bool
) -> None:
    place = tmp_path / "folder" / "items"
    file = FeedFile(Content.begin(str(place), place, overwrite=False), private=private)
    write(file, b"a line\n")
    file.close()
    assert (place.parent.stat().st_mode & 0o077 == 0) is private
    usual = place.with_name("usual")
    usual.touch(0o600 if private else 0o666)
    assert place.stat().st_mode == usual.stat().st_mode


@pytest.mark.parametrize("how", ["was deleted", "was replaced", "was cut", "has grown"])
def test_a_file_changed_while_it_is_written_is_left_alone(
    place: Path, how: str
) -> None:
    file = FeedFile(Content.begin(str(place), place, overwrite=False))
    write(file, BASE)
    file.sync()
    if how == "was deleted":
        place.unlink()
    elif how == "was replaced":
        place.rename(place.with_name("moved"))
        place.write_bytes(b"other")
    elif how == "was cut":
        os.truncate(place, 5)
    else:
        with place.open("ab") as other:
            other.write(b"x")
    content = place.read_bytes() if place.exists() else None
    with pytest.raises(FeedChangedError, match=how):
        write(file, PIECE)
    assert (place.read_bytes() if place.exists() else None) == content
    file.close()


def test_two_cannot_write_to_one_file(place: Path) -> None:
    one, other = (
        FeedFile(Content.begin(str(place), place, overwrite=False)) for _ in range(2)
    )
    write(one, PIECE)
    with pytest.raises(FeedError, match="is being written by another"):
        write(other, b"mine")
    assert place.read_bytes() == PIECE
    one.close()


def test_the_error_names_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "items"
    with pytest.raises(FeedError, match="file/items"):
        Content.begin(str(place), place, overwrite=False)


def test_a_place_that_cannot_be_looked_at_is_named() -> None:
    """Nothing shows that it has changed, and the user gets no traceback."""
    name = "x" * 300
    record = {"path": name, "place": name, "base": 0, "tail": digest(b"")}
    with pytest.raises(FeedError, match=r"cannot continue the feed x+: .*too long"):
        change_of(record, b"")


def test_a_record_of_an_earlier_version_says_less_of_the_options(place: Path) -> None:
    def rest() -> StoredFeeds:
        known = ("format", "fields", "postprocessing")
        options = {name: FEED["options"][name] for name in known}
        return stored({"feeds": {"f": {**FEED, "options": options}}, "files": [state]})

    state = left(place, 0)
    now = {**OPTIONS, "encoding": "utf-16", "item_export_kwargs": {"default": str}}
    rest().check_feeds({"f": now})
    assert rest().take("f", now).record is not None
    with pytest.raises(FeedChangedError, match="format = 'jsonlines', now it has"):
        rest().check_feeds({"new": now, "f": {**now, "format": "csv"}})


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
