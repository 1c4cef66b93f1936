"""Agreement: whether filter and frontier describe the store as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bloomdupe.filter.layer import LayerState
from bloomdupe.frontier.later import NO_LATER
from bloomdupe.store.format import MODULUS

if TYPE_CHECKING:
    from bloomdupe.store.lmdb.check import CheckReport


def disagreements(report: CheckReport) -> list[str]:
    """Say where the records of filter and frontier contradict the store.

    The sums and the counts prove that each record is as it was written. This proves
    that the records fit together. The store must be sound otherwise.
    """
    records, counts, sums = report.records, report.counts, report.sums
    layers = [LayerState(*state) for state in records["filter"]["layers"]]
    frontier = records.get("frontier", {"requests": 0, "digest": 0})
    later = frontier.get("later", NO_LATER)
    problems = [
        f"{counts.get(name, 0):,} {name} records stand where {said:,} are counted"
        for name, said in (
            ("pages", sum(layer.stored for layer in layers)),
            ("journal", records["filter"]["journal_entries"]),
            ("exact", records["filter"]["exact"]),
            ("queue", frontier["requests"]),
            ("later", later["requests"]),
        )
        if said != counts.get(name, 0)
    ]
    problems += [
        f"the {name} records differ from the records that were counted"
        for name, said in (
            ("pages", sum(layer.stored_sum for layer in layers)),
            ("queue", frontier["digest"]),
            ("later", later["digest"]),
        )
        if (said - sums.get(name, 0)) % MODULUS
    ]
    return problems + report.misfits
