"""How ``format1/`` was made, once. A later format gets a folder of its own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from bloomdupe import BloomFilter

place = Path(sys.argv[1])
with BloomFilter.open(
    place / "full",
    1000,
    0.2,
    confirm=0.25,
    key=bytes(range(16)),
    identity={"spider": "golden"},
) as seen:
    seen.update(f"key {number}" for number in range(2000))
    seen.compact()  # pages of two layers
    seen.update(f"key {number}" for number in range(2000, 2100))  # and a journal
    seen.notes["run"] = "finished"
    seen.backup(place / "format1")
    absent = [f"absent {number}" for number in range(5_000)]
    print(len(seen), seen.info().exact_keys, [key for key in absent if key in seen])
shutil.rmtree(place / "full")
