from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bloomdupe import BloomFilter
from bloomdupe.frontier.agreement import disagreements
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store.batch import Batch
from bloomdupe.store.format import SLOTS, StoredSlot, slot_record
from bloomdupe.store.lmdb.check import check, verify
from bloomdupe.store.lmdb.lmdb_store import LmdbStore
from bloomdupe.store.participant import Part
from bloomdupe.store.place import Directory


class Rewritten:
    """A transaction that writes something wrong, under right sums."""

    def __init__(self, store: LmdbStore, record: str, name: str) -> None:
        with store.snapshot() as snapshot:
            self.said: dict[str, Any] = snapshot.record(record) or {}
        self.record = record
        self.name = name

    def write(self, batch: Batch) -> None:
        self.said[self.name] += 1
        batch.put_record(self.record, self.said)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with BloomFilter.open(tmp_path / "store", 1000, 1e-6, exact=True) as seen:
        owed = Frontier(seen)
        for number in range(30):
            seen.add(str(number))
            owed.push(f"slot {number % 3}", 0, b"payload")
        owed.checkpoint()
        seen._contents.fold()
    return tmp_path / "store"


def test_a_store_agrees_with_itself(path: Path) -> None:
    assert disagreements(check(path / "data.mdb")) == []


@pytest.mark.parametrize(
    ("record", "name", "words"),
    [
        ("filter", "pages", "1 pages records stand where 2 are counted"),
        ("filter", "journal_entries", "0 journal records stand where 1 are counted"),
        ("filter", "exact", "exact records stand where"),
    ],
)
def test_a_record_that_is_wrong_is_found(
    path: Path, record: str, name: str, words: str
) -> None:
    store = Directory(path).open()
    store.commit(Part(write=Rewritten(store, record, name).write))
    store.close()
    assert verify(path).problems == []  # it has only the pages that were written
    (problem,) = disagreements(check(path / "data.mdb"))
    assert words in problem


def test_a_slot_that_is_wrong_is_found(path: Path) -> None:
    store = Directory(path).open()
    # One slot gets a request that is not there.
    slots = [StoredSlot(0, 11, "slot 0"), StoredSlot(1, 9, "slot 1")]
    store.commit(Part(changes={SLOTS: [*map(slot_record, slots)]}))
    store.close()
    assert verify(path).problems == []
    assert disagreements(check(path / "data.mdb")) == [
        "slot 0 has 10 requests, but 11 were written",
        "slot 1 has 10 requests, but 9 were written",
    ]
