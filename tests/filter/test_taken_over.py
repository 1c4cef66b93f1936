"""A filter takes layers of filters with the same key and another capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bloomdupe import BloomFilter
from bloomdupe.errors import IncompatibleFilterError

if TYPE_CHECKING:
    from pathlib import Path

    from bloomdupe.filter.layer import Layer

KEY = bytes(16)
P = 1e-4
PARTS = 5


def parts(count: int) -> list[BloomFilter]:
    """Return small filters with so many keys, of which one has grown."""
    found = [BloomFilter(40, P, key=KEY) for _ in range(PARTS)]
    for number in range(count):
        found[0 if number % 2 else number % PARTS].add(f"part {number}")
    assert found[0].layer_count > 1
    return found


def layers_of(filters: list[BloomFilter]) -> list[tuple[str, Layer, int]]:
    return [
        (f"{number}.{layer.number}", layer, keys)
        for number, each in enumerate(filters)
        for _, layer, keys in each.named_layers
    ]


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    """Return the path of a filter with keys of its own and layers of two filters."""
    with BloomFilter.open(tmp_path / "seen", 200, P, key=KEY) as seen:
        seen.update(f"own {number}" for number in range(50))
        seen.take_over(layers_of(parts(400)))
    return tmp_path / "seen"


def has_all(seen: BloomFilter) -> bool:
    return all(f"part {n}" in seen for n in range(400)) and all(
        f"own {n}" in seen for n in range(50)
    )


def test_keys_of_taken_layers_are_seen_after_reopening(taken: Path) -> None:
    with BloomFilter.open(taken) as seen:
        assert has_all(seen)
        assert not seen.add("part 7")
        assert seen.add("new")
        assert seen.info().keys == len(seen) > 400


def test_taking_the_same_layers_again_changes_nothing(taken: Path) -> None:
    with BloomFilter.open(taken) as seen:
        before = seen.copy()
        seen.take_over(layers_of(parts(400)))
        assert seen == before
        assert abs(len(seen) - len(before)) < 20  # it is estimated


def test_it_grows_on_as_any_filter_does(taken: Path) -> None:
    with BloomFilter.open(taken, growth="grow") as seen:
        capacity = [layer.geometry.capacity for _, layer, _ in seen.named_layers][-1]
        assert capacity <= 2 * 200  # the next layer of its own
        for number in range(1_500):
            seen.add(f"more {number}")
        hashes = [layer.geometry.hashes for _, layer, _ in seen.named_layers]
        assert max(hashes) == hashes[-1]
        assert has_all(seen)
    with BloomFilter.open(taken) as seen:
        assert has_all(seen)
        assert all(f"more {number}" in seen for number in range(1_500))


def test_the_next_layer_has_as_many_hashes_as_a_layer_that_was_taken() -> None:
    grown = BloomFilter(5, P, growth="grow", key=KEY)
    grown.update(f"part {number}" for number in range(400))
    seen = BloomFilter(200, P, growth="grow", key=KEY)
    seen.take_over(layers_of([grown]))
    seen.update(f"own {number}" for number in range(300))
    hashes = [layer.geometry.hashes for _, layer, _ in seen.named_layers]
    assert hashes[0] < max(hashes) == hashes[-1]


def test_keys_that_are_kept_exactly_are_taken_too() -> None:
    other = BloomFilter(40, P, key=KEY, confirm=1)
    other.add("kept")
    seen = BloomFilter(200, P, key=KEY, confirm=1)
    seen.take_over(layers_of([other]), other.exact_ids)
    assert "kept" in seen
    assert list(seen.exact_ids) == list(other.exact_ids) != []


def test_its_probability_is_that_of_all_together(taken: Path) -> None:
    with BloomFilter.open(taken) as seen:
        rate = seen.current_fpp()
        wrong = sum(f"absent {number}" in seen for number in range(200_000))
    assert wrong < 200_000 * rate * 2 + 20


def test_it_goes_along_in_a_union(taken: Path, tmp_path: Path) -> None:
    with (
        BloomFilter.open(taken, readonly=True) as theirs,
        BloomFilter.open(tmp_path / "other", 200, P, key=KEY) as ours,
    ):
        ours.add("ours")
        both = ours
        both |= theirs
        assert has_all(both)
        assert "ours" in both
    with BloomFilter.open(tmp_path / "other") as ours:
        assert has_all(ours)


def test_a_layer_of_another_shape_is_refused(taken: Path) -> None:
    others = [BloomFilter(90, P, key=KEY)]
    with (
        BloomFilter.open(taken) as seen,
        pytest.raises(IncompatibleFilterError, match="is for 40 keys"),
    ):
        seen.take_over(
            [(f"0.{n}", l_, k) for n, (_, l_, k) in enumerate(others[0].named_layers)]
        )


def test_clear_forgets_taken_layers(taken: Path) -> None:
    with BloomFilter.open(taken) as seen:
        seen.clear()
        assert seen.layer_count == 1
        assert "part 7" not in seen
    with BloomFilter.open(taken) as seen:
        assert seen.layer_count == 1


def test_layers_of_any_order_may_come(taken: Path, tmp_path: Path) -> None:
    """The filters have grown since; the last one had layers of other filters."""
    with BloomFilter.open(taken) as theirs:
        theirs.update(f"more {number}" for number in range(1_500))
    with (
        BloomFilter.open(taken, readonly=True) as theirs,
        BloomFilter.open(tmp_path / "other", 200, P, key=KEY) as ours,
    ):
        shapes = {layer.geometry for _, layer, _ in theirs.named_layers}
        assert len(shapes) > 3
        both = ours
        both |= theirs
        # In other places, as a filter on Redis leaves them out.
        own = [each for each in theirs.named_layers if each[0] is None]
        others = [
            (f"again {name}", *each) for name, *each in theirs.named_layers if name
        ]
        assert len(own) > 2
        both.take_over(others[::-1])  # type: ignore[arg-type]
        both.update(f"last {number}" for number in range(9_000))
        assert has_all(both)
        assert all(f"more {number}" in both for number in range(1_500))
        assert all(f"last {number}" in both for number in range(9_000))
        hashes = [layer.geometry.hashes for _, layer, _ in both.named_layers]
        assert hashes[-1] == max(hashes)
