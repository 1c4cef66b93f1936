"""Imports into a shared frontier, and workers that run during an import."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bloomdupe import BloomFilter
from bloomdupe.errors import StoreError, StoreMismatchError
from bloomdupe.filter.parameters import Parameters
from bloomdupe.redis.partition import Offer
from bloomdupe.redis.shared_frontier import SharedFrontier
from bloomdupe.redis.shared_import import Imports

LONG = 3_600.0
"""Seconds; no lease of this length runs out in a test."""
IDENTITY: dict[str, Any] = {"spider": "site"}


@contextmanager
def opened(url: str) -> Iterator[SharedFrontier]:
    with SharedFrontier.open(
        url, 1_000, partitions=3, lease_seconds=LONG, identity=IDENTITY
    ) as frontier:
        yield frontier


def link(number: int) -> Offer:
    """Return a link, which may have been seen elsewhere."""
    key = b"%d" % number
    return Offer(f"host{number % 7}", key, b"link", known_as=key)


def import_all(imports: Imports, keys: list[bytes], parameters: Parameters) -> None:
    imports.begin({})
    imports.mark(keys, parameters)
    imports.keep({"far": "through"}, end=True)


def test_imported_marks_count_in_all_slots(url: str) -> None:
    with opened(url) as one:
        marks = [b"%d" % number for number in range(0, 100, 2)]
        import_all(one.imports, marks, one.parameters)
    with opened(url) as one:
        assert one.imports.note == {"far": "through"}
        new = one.offer([link(number) for number in range(100)])
        assert new == [number % 2 == 1 for number in range(100)]
        # An import offers the requests that were pending there, though they were seen.
        waited = link(4)._replace(known_as=None)
        assert one.offer([waited]) == [True]
        assert one.offer([waited]) == [False]


def test_no_import_begins_while_workers_run(url: str) -> None:
    with opened(url) as one, opened(url) as other:
        one.tend()
        with pytest.raises(StoreError, match=r"workers are there \(1\)"):
            other.imports.begin({})
        one.close()
        other.imports.begin({})


def test_no_worker_comes_before_an_import_has_ended(url: str) -> None:
    asked: dict[str, Any] = {
        "partitions": 3, "identity": IDENTITY
    }  # fmt: skip
    with opened(url) as early, opened(url) as importing:
        importing.imports.begin({})
        with pytest.raises(StoreError, match="an import into it has not ended"):
            early.tend()
        with pytest.raises(StoreError, match="an import into it has not ended"):
            SharedFrontier.check(url, 1_000, **asked)
        importing.imports.keep({}, end=True)
        # It does not know which requests were seen elsewhere.
        with pytest.raises(StoreError, match="start it again"):
            early.tend()
        SharedFrontier.check(url, 1_000, **asked)
        with opened(url) as late:
            late.tend()
            assert late.owned


def test_a_second_import_ends_the_first(url: str) -> None:
    with opened(url) as one, opened(url) as other:
        one.imports.begin({})
        other.imports.begin({})
        with pytest.raises(StoreError, match="another import into it has begun"):
            one.imports.keep({})
        other.imports.keep({}, end=True)


def test_a_filter_comes_over_as_it_is(url: str) -> None:
    seen = BloomFilter(300, 1e-3)
    seen.update(f"{number}" for number in range(500))  # it has grown
    with opened(url) as one:
        layers = seen.counted_layers
        parts = [(n, layer, keys) for n, (layer, keys) in enumerate(layers)]
        one.imports.merge(parts, seen.parameters)
        one.imports.merge(parts, seen.parameters)  # as after a kill
        assert one.imports.seen == seen
        another = BloomFilter(300, 1e-3)
        with pytest.raises(StoreMismatchError, match="another secret key"):
            one.imports.check_merge(another.parameters)
