"""The control of the models: records that do not fit together are noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.agreement import disagreements

from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store.format import META, SLOTS, StoredSlot, meta_record, slot_record
from bloomdupe.store.participant import Part


@pytest.mark.parametrize("wrong", ["nothing", "pages", "exact", "slots"])
def test_what_does_not_fit_is_noticed(tmp_path: Path, wrong: str) -> None:
    with BloomFilter.open(tmp_path / "store", 1000, 1e-6, exact=True) as seen:
        owed = Frontier(seen)
        for number in range(30):
            seen.add(str(number))
            owed.push(f"slot {number % 3}", 0, b"payload")
        owed.checkpoint()
        store, record = seen.share_store(), seen.record("filter")
        assert store is not None
        assert record is not None
        changes = {SLOTS: [slot_record(StoredSlot(0, 11, "slot 0"))]}
        if wrong in record:
            record[wrong] += 1
            changes = {META: [meta_record("filter", record)]}
        if wrong != "nothing":
            store.commit(Part(changes=changes))
        found = disagreements(tmp_path / "store" / "data.mdb")
    assert len(found) == (wrong != "nothing")
