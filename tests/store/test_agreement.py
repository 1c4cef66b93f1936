"""The control of the models: records that do not fit together are noticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.agreement import disagreements

from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.store.format import META, SLOTS, StoredSlot, meta_records, slot_record
from bloomdupe.store.store import Part


@pytest.mark.parametrize("wrong", ["nothing", "blocks", "exact", "slots"])
def test_what_does_not_fit_is_noticed(tmp_path: Path, wrong: str) -> None:
    with BloomFilter.open(tmp_path / "store", 1000, 1e-6, exact=True) as seen:
        frontier = Frontier(seen)
        for number in range(30):
            seen.add(str(number))
            frontier.push(f"slot {number % 3}", 0, b"payload")
        frontier.checkpoint()
        store = seen.share_store()
        assert store is not None
        record = store.now.record("filter")
        assert record is not None
        key, value = slot_record(StoredSlot(0, 11, "slot 0"))
        part = Part(changes={SLOTS: {key: value}})
        if wrong in record:
            record[wrong] += 1
            part = Part(changes={META: meta_records({"filter": record})})
        if wrong != "nothing":
            store.commit(part)
        found = disagreements(tmp_path / "store" / "data.mdb")
    assert len(found) == (wrong != "nothing")
