"""Whether the records of filter and frontier describe a store as it is."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from bloomdupe.store.format import QUEUE, SLOT_KEY, TABLES
from bloomdupe.store.lmdb import checked_reading
from bloomdupe.store.lmdb.environment import LmdbSnapshot, open_environment


def disagreements(data: Path) -> list[str]:
    """Say what is wrong in a data file, also in one that this process has open.

    Its sums and counts prove that each record is as it was written; then this proves
    that the records fit together. It starts no process, so a model may call it after
    every step.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(data, folder))
        report = checked_reading.examine(copy)
        if report.problems:
            return report.problems
        with open_environment(copy.parent, readonly=True, lock=False) as env:
            tables = {name: env.open_db(name, create=False) for name in TABLES}
            with env.begin(buffers=True) as txn:
                snapshot = LmdbSnapshot(txn, tables, str(data))
                counted = {slot.number: slot.requests for slot in snapshot.slots()}
                keys = snapshot.keys(QUEUE)
                queued = Counter(SLOT_KEY.unpack_from(key)[0] for key in keys)
    said, counts = report.records["filter"], report.counts
    problems = [
        f"{counts[name]:,} {name} records stand where {number:,} are counted"
        for name, number in (
            ("blocks", said["blocks"]),
            ("journal", said["journal_entries"]),
            ("exact", said["exact"]),
        )
        if number != counts[name]
    ]
    if queued != counted:
        problems.append(f"the requests of slots are {queued}, but {counted} are said")
    return problems
