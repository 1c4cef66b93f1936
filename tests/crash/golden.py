"""F15: stores of every format that was ever released, as they were written then."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from trial import OK, Fault, Outcome, lost, silently_wrong

from bloomdupe import BloomFilter
from bloomdupe.check import verify
from bloomdupe.errors import BloomDupeError
from bloomdupe.frontier import Frontier

if TYPE_CHECKING:
    from collections.abc import Iterable

GOLDEN = Path(__file__).parents[1] / "golden"


class Golden(Fault):
    """Each opens with everything that is in it, goes on, and opens again."""

    number = "F15"
    name = "stores of earlier formats"
    trials = 3

    def run(self, folder: Path, seed: int) -> list[Outcome]:
        del seed  # no chance in it
        return [_opened(folder, name, keys, n) for name, (keys, n) in STORES.items()]

    def control(self, folder: Path, seed: int) -> list[Outcome]:
        """With an expectation that is wrong by one key, in a random store."""
        name = random.Random(seed).choice(sorted(STORES))
        keys, requests = STORES[name]
        return [_opened(folder, name, [*keys, "never added"], requests)]


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
            if problems := verify(path)[1]:
                return lost(f"{name}, run {run}: {problems[0]}")
            with BloomFilter.open(path) as seen:
                missing = [key for key in keys if key not in seen]
                owed = Frontier(seen)
                owed.verify()
                if missing or owed.pending != requests + run:
                    return silently_wrong(f"{name}, run {run}: {missing[:3]}")
                owed.offer(b"a new one", "host", 0, b"payload")
                owed.checkpoint()
    except BloomDupeError as error:
        return lost(f"{name}: {error}")
    return OK
