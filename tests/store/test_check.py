"""Damage that one pass over a data file finds, and another one does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bloomdupe import BloomFilter
from bloomdupe.errors import StoreDamagedError, StoreError
from bloomdupe.store.lmdb.checked_reading import examine

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 4096


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The file of a store whose exact keys take several pages."""
    with BloomFilter.open(tmp_path / "seen", 1000, exact=True) as seen:
        for number in range(500):
            seen.add(str(number))
            if not number % 100:
                seen.checkpoint()
    return tmp_path / "seen" / "data.mdb"


def number_at(content: bytearray, at: int, size: int = 8) -> int:
    return int.from_bytes(content[at : at + size], "little")


def head(content: bytearray) -> int:
    """Where the head that counts begins."""
    return max((0, PAGE), key=lambda at: number_at(content, at + 144))


def node(content: bytearray, page: int, number: int) -> int:
    """Where a node of a page begins."""
    return page + number_at(content, page + 16 + 2 * number, 2)


def root_of_exact(content: bytearray) -> int:
    """Where the record of the tree of ``exact`` begins."""
    main = number_at(content, head(content) + 128) * PAGE
    count = (number_at(content, main + 12, 2) - 16) // 2
    nodes = [node(content, main, number) for number in range(count)]
    return next(at + 8 + 5 for at in nodes if content[at + 8 : at + 13] == b"exact")


def test_pages_in_use_that_are_listed_as_free_are_found(data: Path) -> None:
    """LMDB would write over them."""
    content = bytearray(data.read_bytes())
    free = number_at(content, head(content) + 80) * PAGE
    assert content[free + 10] == 2  # the list of free pages is a single leaf
    first = node(content, free, 0) + 16 + 8  # behind node, key and length of the list
    content[first : first + 8] = content[head(content) + 128 : head(content) + 136]
    data.write_bytes(content)
    assert any("freeDB" in problem for problem in examine(data).problems)


def test_a_branch_that_leads_to_a_wrong_page_is_found(data: Path) -> None:
    """LMDB would not find keys that are there."""
    content = bytearray(data.read_bytes())
    branch = number_at(content, root_of_exact(content) + 40) * PAGE
    assert content[branch + 10] == 1
    content[node(content, branch, 1) + 8] += 1  # the first byte of the second key
    data.write_bytes(content)
    assert examine(data).problems == ["exact: keys lead to other records"]


@pytest.mark.parametrize(
    ("place", "bit", "problem"),
    [
        (4, 4, "exact: its root is damaged"),  # LMDB would keep two values under a key
        (-1, 1, "the table exact is missing"),
    ],
)
def test_a_table_with_flags_or_another_name_is_found(
    data: Path, place: int, bit: int, problem: str
) -> None:
    content = bytearray(data.read_bytes())
    content[root_of_exact(content) + place] |= bit
    data.write_bytes(content)
    assert problem in examine(data).problems


@pytest.mark.parametrize("flag", [1, 4])
def test_a_head_with_flags_is_found(data: Path, flag: int) -> None:
    content = bytearray(data.read_bytes())
    content[head(content) + 44] |= flag
    data.write_bytes(content)
    assert "of the file is damaged" in examine(data).problems[0]


def test_a_file_that_is_open_in_this_process_is_not_damaged(data: Path) -> None:
    (data.parent / "clean.json").unlink()
    with (
        BloomFilter.open(data.parent, readonly=True),
        pytest.raises(StoreError, match="already open") as refused,
    ):
        BloomFilter.open(data.parent, readonly=True)
    assert not isinstance(refused.value, StoreDamagedError)
