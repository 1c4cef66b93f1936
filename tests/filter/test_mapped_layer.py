"""Layers that keep no block in memory: the same answers, in little memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bloomdupe import BloomFilter
from bloomdupe.errors import SettingError, StoreDamagedError
from bloomdupe.filter import contents, layer
from bloomdupe.filter.layer import most_memory
from bloomdupe.store.format import BLOCK_KEY, BLOCKS

if TYPE_CHECKING:
    from pathlib import Path

KEY = bytes(16)
CAPACITY = 4_000
KEYS = [f"key {number}" for number in range(5 * CAPACITY // 2)]
STRANGERS = [f"stranger {number}" for number in range(5_000)]


@pytest.fixture(autouse=True)
def a_quick_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is swept several times while a test adds its keys."""
    monkeypatch.setattr(layer, "MIN_BACKLOG", 400)
    monkeypatch.setattr(layer, "MAX_BACKLOG", 400)
    monkeypatch.setattr(contents, "MAX_PENDING", 200)


def opened(path: Path, memory: int | None, fpp: float = 1e-2) -> BloomFilter:
    return BloomFilter.open(path, CAPACITY, fpp, key=KEY, memory=memory)


def kept(seen: BloomFilter) -> list[bool]:
    return [each.keeps_blocks for each in seen.layers]


def test_memory_is_for_news_only(tmp_path: Path) -> None:
    with opened(tmp_path / "seen", 0) as seen:
        seen.update(KEYS)
        seen.update(STRANGERS)
        for each in seen.layers:
            assert not any(each.blocks)
            assert sum(map(len, each._news.values())) <= 16 * 1_200
        seen.fold()
        for each in seen.layers:
            assert not each._news
            assert each.memory_bytes() < most_memory(each.geometry)
        assert all(seen.contains_many(KEYS))


def test_layers_are_in_memory_as_long_as_they_fit(tmp_path: Path) -> None:
    first, second = (
        BloomFilter(CAPACITY, 1e-2).parameters.geometry(number).memory
        for number in (0, 1)
    )
    for room, expected in (
        (first - 1, [False, False]),
        (first, [True, False]),
        (first + second, [True, True]),
    ):
        path = tmp_path / str(room)
        with opened(path, room) as seen:
            seen.update(KEYS)
            assert kept(seen) == expected
        with opened(path, 0) as seen:
            assert all(seen.contains_many(KEYS))


def test_a_damaged_block_is_found_when_it_is_touched_first(tmp_path: Path) -> None:
    path = tmp_path / "seen"
    with opened(path, 0) as seen:
        seen.update(KEYS)
        seen.fold()
    with opened(path, 0) as seen:
        assert seen.store is not None
        value = bytes(seen.store.now.stored(BLOCKS, BLOCK_KEY.pack(1, 2)) or b"")
        place = (path / "data.mdb").read_bytes().index(value)
        with (path / "data.mdb").open("r+b") as file:
            file.seek(place + len(value) // 2)
            file.write(bytes([value[len(value) // 2] ^ 1]))
        with pytest.raises(StoreDamagedError, match="block"):
            seen.contains_many(KEYS)


@pytest.mark.parametrize("value", [-1, 0.5, "much", True, [], float("nan")])
def test_other_values_are_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="memory"):
        BloomFilter.open(tmp_path / "seen", 100, memory=value)  # type: ignore[arg-type]
    assert not (tmp_path / "seen").exists()
