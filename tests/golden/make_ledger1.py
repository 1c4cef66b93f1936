"""How ``ledger1/`` was made, once: a store with a ledger and a marker."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from bloomdupe import BloomFilter
from bloomdupe.frontier.frontier import Frontier

place = Path(sys.argv[1])
with BloomFilter.open(
    place / "full",
    1000,
    0.2,
    confirm=0.1,
    key=bytes(range(16)),
    identity={"spider": "golden"},
) as seen:
    owed = Frontier(seen)
    for number in range(1500):
        seen.add(f"key {number}")
    for number in range(70):
        owed.push(f"slot {number % 7}", number % 3, b"payload %d" % number)
    owed.checkpoint()
    seen.notes["run"] = "finished"
    owed.checkpoint()
    seen.backup(place / "ledger1")
    print(len(seen), owed.pending)
shutil.rmtree(place / "full")
