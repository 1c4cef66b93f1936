"""Agreement: whether filter and frontier describe the store as it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from bloomdupe.filter.layer import LayerState
from bloomdupe.store import files
from bloomdupe.store.datafile import DataFile
from bloomdupe.store.format import (
    LATER,
    MODULUS,
    SLOT_KEY,
    read_record,
    requests_in_slot,
    slot_of,
    sum_of,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["disagreements"]


def disagreements(store: Path) -> list[str]:
    """Say where the records of filter and frontier contradict the store.

    The sums and the counts prove that each record is as it was written. This proves
    that the records fit together. The store must be sound otherwise. Takes about a
    second per million requests.
    """
    records: dict[str, dict[str, Any]] = {}
    counts = Counter[bytes]()
    sums = Counter[bytes]()
    requests = Counter[int]()
    expected = Counter[int]()
    with DataFile(store / files.DATA) as file:
        for database, root in file.databases().items():
            for leaf in file.records(database, root):
                counts[database] += len(leaf.keys)
                if database == b"meta":
                    for key, value in zip(leaf.keys, leaf.values, strict=True):
                        records[key.decode()] = read_record(value) or {}
                elif database == b"slots":
                    for key, value in zip(leaf.keys, leaf.values, strict=True):
                        expected[SLOT_KEY.unpack(key)[0]] = requests_in_slot(value)
                elif database in (b"queue", b"pages", LATER):
                    sums[database] += sum(map(sum_of, leaf.values))
                if database == b"queue":
                    requests.update(slot_of(key)[0] for key in leaf.keys)
    layers = [LayerState(*state) for state in records["filter"]["layers"]]
    frontier = records.get("frontier", {"requests": 0, "slots": 0, "digest": 0})
    later = frontier.get("later", {"requests": 0, "digest": 0})
    problems = [
        f"{counts[name.encode()]:,} {name} records stand where {said:,} are counted"
        for name, said in (
            ("pages", sum(layer.stored for layer in layers)),
            ("journal", records["filter"]["journal_entries"]),
            ("exact", records["filter"]["exact"]),
            ("slots", frontier["slots"]),
            ("queue", frontier["requests"]),
            ("later", later["requests"]),
        )
        if said != counts[name.encode()]
    ]
    problems += [
        f"the {name} records differ from the records that were counted"
        for name, said in (
            ("pages", sum(layer.stored_sum for layer in layers)),
            ("queue", frontier["digest"]),
            ("later", later["digest"]),
        )
        if (said - sums[name.encode()]) % MODULUS
    ]
    problems += [
        f"slot {number} has {requests[number]:,} requests, but {expected[number]:,}"
        " were written"
        for number in sorted(requests | expected)
        if requests[number] != expected[number]
    ]
    return problems
