"""Agreement: whether filter and frontier describe the store as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bloomdupe.store.lmdb.check import CheckReport


def disagreements(report: CheckReport) -> list[str]:
    """Say where the records of filter and frontier contradict the store.

    Its sums and counts prove that each record is as it was written. This proves that
    the records fit together. The store must be sound otherwise.
    """
    records, counts = report.records, report.counts
    return [
        f"{counts.get(name, 0):,} {name} records stand where {said:,} are counted"
        for name, said in (
            ("pages", records["filter"]["pages"]),
            ("journal", records["filter"]["journal_entries"]),
            ("exact", records["filter"]["exact"]),
        )
        if said != counts.get(name, 0)
    ] + report.misfits
