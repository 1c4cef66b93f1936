from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from support.repetition import repeated

from bloomdupe import BloomFilter
from bloomdupe.errors import (
    IncompatibleFilterError,
    KeyTypeError,
    SettingError,
    StoreError,
    StoreMismatchError,
)
from bloomdupe.filter.contents import MAX_EXACT_PENDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

KEY = bytes(16)
OTHER_KEY = bytes(15) + b"x"


def keys(count: int, prefix: str = "in") -> Iterator[str]:
    return (f"https://{prefix}.example/{number}" for number in range(count))


def rate(seen: BloomFilter, questions: Iterable[str]) -> tuple[float, float]:
    """Return the measured rate and its standard error."""
    answers = [key in seen for key in questions]
    share = sum(answers) / len(answers)
    return share, math.sqrt(max(share, 1 / len(answers)) / len(answers))


REDIS = pytest.param("redis", marks=pytest.mark.slow)


@pytest.fixture(params=["memory", "store", REDIS])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return the function that makes, or opens, a filter of each kind in turn."""
    if request.param == "memory":
        return BloomFilter
    if request.param == "store":
        return partial(BloomFilter.open, tmp_path / "seen")
    return partial(BloomFilter.open, request.getfixturevalue("url"))


@pytest.fixture
def seen(make: Any) -> Iterator[BloomFilter]:
    """Yield an empty filter of each kind; all kinds behave alike."""
    with closing(make(1000, 1e-3, key=KEY)) as opened:
        yield opened


combinable = pytest.mark.parametrize("make", ["memory", "store"], indirect=True)
kept = pytest.mark.parametrize("make", ["store", "redis"], indirect=True)


# Adding and asking


def test_update_counts_new_keys(seen: BloomFilter) -> None:
    assert seen.update([b"a", "b", b"a"]) == 2
    assert seen.update(iter(["b", "c"])) == 1
    assert seen.add_many(["c", b"d", "d"]) == [False, True, False]
    assert seen.contains_many(iter(["d", "e"])) == [True, False]
    assert seen.add_many([]) == seen.contains_many([]) == []
    assert len(seen) == 4


@pytest.mark.parametrize("key", [None, 7, bytearray(b"a")])
def test_a_key_of_a_wrong_type_changes_nothing(seen: BloomFilter, key: Any) -> None:
    seen.add("a")
    for use in (seen.add, seen.contains):
        with pytest.raises(KeyTypeError, match="bytes or str"):
            use(key)
    assert len(seen) == 1


# The promise, and growth


@pytest.mark.parametrize("fpp", [0.5, 1e-2, *repeated([1e-1, 1e-3], 0)])
@pytest.mark.parametrize("times", repeated([1, 10, 2, 5, 50], 2))
def test_the_promise_holds_up_to_capacity_and_past_it(times: int, fpp: float) -> None:
    seen = BloomFilter(13_000, fpp, key=KEY)  # one full block, or two
    seen.update(keys(13_000 * times))
    measured, error = rate(seen, keys(40_000, "out"))
    assert measured <= fpp + 3 * error
    assert measured == pytest.approx(seen.info().current_fpp, abs=4 * error)


def test_growth_is_logged_once_a_layer(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "bloomdupe"):
        seen = BloomFilter(1000, 1e-3)
        seen.update(keys(2500))
    assert seen.layer_count == 2
    (record,) = caplog.records
    assert "reached its capacity at 1000 keys" in record.getMessage()


# What is known about it


def test_counts_and_estimates_agree(seen: BloomFilter) -> None:
    """On Redis nothing is measured."""
    seen.update(keys(5000))
    info = seen.info()
    assert info.keys == len(seen)
    assert sum(part["keys"] for part in info.layers) == info.keys
    assert json.loads(json.dumps(info.as_dict()))["keys"] == info.keys
    if isinstance(seen, BloomFilter):
        assert seen.estimated_keys() == pytest.approx(5000, rel=0.002)
        for part, (shape, keys_) in zip(seen.layers, seen.counts, strict=True):
            assert part.fill() == pytest.approx(shape.fill(keys_), rel=0.05)


# Set algebra


@combinable
def test_union_holds_both(seen: BloomFilter) -> None:
    seen.update(keys(3000, "a"))
    other = BloomFilter(1000, 1e-3, key=KEY)
    other.update(keys(9000, "b"))
    both = seen | other
    for prefix, count in (("a", 3000), ("b", 9000)):
        assert all(key in both for key in keys(count, prefix))
    assert len(both) == pytest.approx(12_000, rel=0.02)
    assert not any(key in seen for key in keys(100, "b"))
    seen |= other
    assert seen == both
    assert other != both
    copy = seen.copy()
    copy.add("more")
    assert "more" not in seen
    assert copy != seen
    assert copy != {"more"}
    copy.clear()
    assert len(copy) == 0
    measured, error = rate(both, keys(50_000, "out"))
    assert measured <= 2e-3 + 3 * error


@combinable
def test_union_of_different_filters_is_refused(seen: BloomFilter) -> None:
    other = BloomFilter(1000, 1e-4, key=KEY)
    assert not seen.is_compatible(other)
    assert seen != other
    with pytest.raises(IncompatibleFilterError, match="filters differ: Parameters"):
        seen |= other


# Opening


@kept
@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("capacity", 2000, "1000"),
        ("fpp", 1e-3, "0.01"),
        ("exact", True, "False"),
        ("key", OTHER_KEY, "another key"),
        ("identity", {"spider": "b"}, "'a'"),
    ],
)
def test_other_parameters_are_refused_and_both_printed(
    make: Any, name: str, value: Any, found: str
) -> None:
    for readonly, hint in ((False, "; give a capacity to create one"), (True, "$")):
        with pytest.raises(StoreError, match=f"there is no bloomdupe store{hint}"):
            make(readonly=readonly)
    made: dict[str, Any] = {"capacity": 1000, "fpp": 1e-2, "identity": {"spider": "a"}}
    make(**made, key=KEY).close()
    (place,) = make.args
    asked = {"capacity": 1000, name: value}
    if name == "exact" and isinstance(place, str):
        with pytest.raises(
            SettingError, match=f"{place} is on Redis.* leave exact out"
        ):
            make(**asked)
        return
    with pytest.raises(StoreMismatchError) as caught:
        make(**asked)
    message = str(caught.value)
    assert str(place) in message
    assert found in message
    assert KEY.hex() not in message
    if name != "key":
        wanted = next(iter(value.values())) if name == "identity" else value
        assert repr(wanted) in message
        assert "name another place" in message
    make(**made, key=KEY).close()  # it is as it was, and not in use


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0}, "capacity = 0: expected a whole number"),
        ({"capacity": 10**18}, "bytes, but there are .* of (memory|disk free)"),
        ({"fpp": 2}, "fpp = 2: expected a probability"),
        ({"exact": 0.5}, "exact = 0.5: expected True or False"),
        ({"key": b"short"}, "expected 16 bytes"),
    ],
)
@pytest.mark.parametrize("make", ["memory", "store", "redis"], indirect=True)
def test_bad_parameters_are_refused(
    make: Any, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        make(**{"capacity": 1000, **options})
    assert list(tmp_path.iterdir()) == []


# Durability (tests/crash/ kills real processes)


def test_readers_see_checkpoints_only(tmp_path: Path) -> None:
    with BloomFilter.open(tmp_path / "seen", 9000, exact=True) as seen:
        seen.add("a")
        seen.checkpoint()
        seen.add("b")
        look = (
            "from bloomdupe import BloomFilter\n"
            f"with BloomFilter.open({seen.info().path!r}, readonly=True) as seen:\n"
            "    print('a' in seen, 'b' in seen, len(seen))\n"
        )
        found = subprocess.check_output([sys.executable, "-c", look], text=True)
        assert found.split() == ["True", "False", "1"]
        seen.update(map(str, range(MAX_EXACT_PENDING - 1)))
        assert not seen.changed
    with BloomFilter.open(tmp_path / "seen", readonly=True) as reader:
        assert not reader.add("a")  # it is there


@kept
def test_a_reader_writes_nothing(make: Any) -> None:
    with make(1000) as seen:
        seen.add("a")
    with make(readonly=True) as reader:
        assert "a" in reader
        for use in (lambda: reader.add("b"), reader.clear):
            with pytest.raises(StoreError, match="read-only"):
                use()
        assert len(reader) == 1


def test_a_closed_filter_answers_nothing(tmp_path: Path) -> None:
    seen = BloomFilter.open(tmp_path / "seen", 1000)
    seen.add("a")
    seen.close()
    seen.close()  # harmless
    for use in (seen.add, seen.contains):
        with pytest.raises(StoreError, match="closed"):
            use("a")
    with pytest.raises(StoreError, match="closed"):
        seen.backup(tmp_path / "copy")
