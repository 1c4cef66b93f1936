"""One output file: what others did to it is seen, and left alone."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from bloomdupe.errors import FeedChangedError, FeedError
from bloomdupe.feedfile import FeedFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BASE = b"".join(b"line %d\n" % number for number in range(1000))
PIECE = b"one\ntwo\n"
LEFT = ["nothing of the piece", "half of it", "all of it"]


def left(place: Path, written: int) -> dict[str, Any]:
    """Leave a file as a run does that dies after so many bytes of the last piece."""
    file = FeedFile.begin(str(place), overwrite=False)
    for piece in (BASE, PIECE):
        file.piece = piece
        state = file.state
        file.append()
    file.close()
    os.truncate(place, len(BASE) + written)
    return state


def resumed(state: dict[str, Any], *, accept: bool = False) -> FeedFile:
    return FeedFile.resume(state, PIECE, state["written"], accept=accept)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "items"


@pytest.mark.parametrize("written", range(len(PIECE) + 1))
def test_what_is_missing_is_written(place: Path, written: int) -> None:
    file = resumed(left(place, written))
    assert place.read_bytes() == BASE + PIECE
    file.piece = b"three\n"
    file.append()
    assert place.read_bytes() == BASE + PIECE + b"three\n"


def test_zeros_after_a_power_cut_are_ours(place: Path) -> None:
    state = left(place, 3)
    os.truncate(place, len(BASE) + 6)
    resumed(state)
    assert place.read_bytes() == BASE + PIECE


def test_a_file_is_cut_back_to_what_is_settled(place: Path) -> None:
    state = left(place, 4)
    file = FeedFile.resume(state, PIECE, len(BASE) - 7, accept=False)
    assert place.read_bytes() == BASE[:-7]
    file.piece = b"more"
    file.append()
    assert place.read_bytes() == BASE[:-7] + b"more"


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
    assert "BLOOMDUPE_FEED_CHANGED" in str(caught.value)
    assert (place.read_bytes() if place.is_file() else None) == content


@pytest.mark.parametrize("change", [cut, delete, lengthen, append, replace])
def test_a_changed_file_is_gone_on_with_if_told(
    place: Path, change: Callable[[Path], None]
) -> None:
    state = left(place, 4)
    change(place)
    content = place.read_bytes() if place.exists() else b""
    file = resumed(state, accept=True)
    file.piece = b"three\n"
    file.append()
    assert place.read_bytes() == content + PIECE + b"three\n"


@pytest.mark.parametrize("how", ["was deleted", "was replaced", "was cut", "has grown"])
def test_a_file_changed_while_it_is_written_is_left_alone(
    place: Path, how: str
) -> None:
    file = FeedFile.begin(str(place), overwrite=False)
    file.piece = BASE
    file.append()
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
    file.piece = PIECE
    with pytest.raises(FeedChangedError, match=how):
        file.append()
    assert (place.read_bytes() if place.exists() else None) == content
    file.close()


def test_where_nothing_can_be_written_the_error_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FeedError, match="file/items"):
        FeedFile.begin(str(tmp_path / "file" / "items"), overwrite=False)
