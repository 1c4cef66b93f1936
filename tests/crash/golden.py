"""F15: stores of every format that was ever released, as they were written then.

And the same stores as a later version might write them, in a format that this version
does not know.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import lmdb
from trial import OK, Fault, Outcome, crashed, lost, silently_wrong

from bloomdupe import BloomFilter
from bloomdupe.errors import BloomDupeError, StoreMismatchError
from bloomdupe.frontier.frontier import Frontier
from bloomdupe.rescue.agreement import disagreements
from bloomdupe.store import files, trust
from bloomdupe.store.batch import Batch
from bloomdupe.store.check import verify
from bloomdupe.store.environment import open_databases
from bloomdupe.store.format import FORMAT
from bloomdupe.store.snapshot import Snapshot

GOLDEN = Path(__file__).parents[1] / "golden"


class Golden(Fault):
    """Each opens with all that is in it; written in a later format, it is refused."""

    number = "F15"
    name = "stores of earlier and later formats"
    trials = 6

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        del seed  # no chance in it
        outcomes = [
            _opened(folder, name, keys, requests)
            for name, (keys, requests) in STORES.items()
        ]
        return outcomes + [_refused(folder / "later", name) for name in STORES]

    def control(self, folder: Path) -> list[Outcome]:
        """Without a look at the format: what is later is misread."""
        check = trust._check_formats

        def careless(
            path: Path, record: Callable[[str], dict[str, Any] | None]
        ) -> dict[str, Any]:
            def of_this_format(name: str) -> dict[str, Any] | None:
                found = record(name)
                return (
                    {**found, "format": FORMAT} if found and name == "store" else found
                )

            check(path, of_this_format)
            header = record("store")
            assert header is not None
            return header

        trust._check_formats = careless
        try:
            return [_refused(folder, name) for name in STORES]
        finally:
            trust._check_formats = check


STORES: dict[str, tuple[Iterable[str], int]] = {
    "format1": ([f"key {number}" for number in range(2100)], 0),
    "frontier1": ([f"https://b.example/{number}" for number in range(100)], 109),
    "ledger1": ([f"key {number}" for number in range(1500)], 70),
}
"""By folder: keys that are in it, and how many requests wait."""


def _opened(folder: Path, name: str, keys: Iterable[str], requests: int) -> Outcome:
    path = folder / name
    shutil.copytree(GOLDEN / name, path)
    try:
        BloomFilter.open(path).close()
        for run in range(2):
            report = verify(path)
            if problems := report.problems or disagreements(report):
                return lost(f"{name}, run {run}: {problems[0]}")
            with BloomFilter.open(path) as seen:
                missing = [key for key in keys if key not in seen]
                owed = Frontier(seen)
                if missing or owed.pending != requests + run:
                    return silently_wrong(f"{name}, run {run}: {missing[:3]}")
                seen.add(b"a new one")
                owed.push("host", 0, b"payload")
                owed.checkpoint()
    except BloomDupeError as error:
        return lost(f"{name}: {error}")
    return OK


def _refused(folder: Path, name: str) -> Outcome:
    """Open a store of a later version: it is refused, and not misread."""
    path = folder / name
    shutil.copytree(GOLDEN / name, path)
    _write_later_format(path)
    keys, _ = STORES[name]
    try:
        with BloomFilter.open(path) as seen:
            missing = sum(key not in seen for key in keys)
    except StoreMismatchError as error:
        if f"has format {FORMAT + 1}" in str(error) and "bloomdupe 9.9" in str(error):
            return OK
        return crashed(f"{name}: the refusal does not help: {error}")
    return silently_wrong(f"{name} of a later format opens, {missing} keys missing")


def _write_later_format(path: Path) -> None:
    """Let the header be of a version that keeps the hash's key the other way round.

    All else is as it should be in such a store: checksums, ledger, marker.
    """
    with lmdb.open(str(path), map_size=1 << 24, max_dbs=16, lib_version=0) as env:
        databases = open_databases(env)
        with env.begin(write=True) as txn:
            snapshot = Snapshot(txn, databases, str(path))
            header, ledger = snapshot.record("store"), snapshot.ledger()
            assert header is not None
            key = bytes.fromhex(header["key"])[::-1].hex()
            header |= {"format": FORMAT + 1, "written_by": "bloomdupe 9.9", "key": key}
            batch = Batch(txn, databases, ledger and ledger.totals)
            batch.put_record("store", header)
            if ledger is not None:
                batch.seal()
    files.write_marker(path, header)
