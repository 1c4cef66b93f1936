"""A filter that is larger than the memory that it may take.

    python tests/benchmarks/billion.py

A filter for a billion URLs is filled with random bits, as full as so many URLs would
make it; to add them would take hours. Then a new process opens it with ``memory=0``,
adds keys, asks questions, and ends as if killed. The next process does the same.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bitarray.util import zeros
from runner import Report, describe, field

from bloomdupe import BloomFilter
from bloomdupe.filter import contents
from bloomdupe.filter.sizing import BLOCK_BITS

URLS, FILLED, FPP = 1_000_000_000, 0.9, 1e-6
NEW = 1_500_000
"""Keys that a process adds."""
GOALS = {
    "opened, s": 3.0,
    "added, µs": None,
    "written a key, kB": 4.1,
    "asked new, µs": 4.0,
    "asked old, µs": None,
    "RssAnon, MB": 300.0,
}
"""The figures of a life of the filter, in CPU time, and the most that each may be."""
ASKED = 200_000


def keys(name: str, count: int) -> Iterator[bytes]:
    return (f"https://{name}.example/{number}".encode() for number in range(count))


def create(place: Path) -> None:
    """Create the filter and fill all its pages with random bits."""
    contents.MAX_SWEEP = 4_096
    dice = random.Random(1)
    with BloomFilter.open(place, URLS, FPP, memory=0) as seen:
        newest = seen.newest
        share = newest.geometry.fill(FILLED * URLS)
        some = [zeros(BLOCK_BITS, endian="little") for _ in range(64)]
        for page in some:
            page[dice.sample(range(BLOCK_BITS), round(share * BLOCK_BITS))] = 1
        store = seen.share_store()
        assert store is not None
        pages = newest.geometry.blocks
        for first in range(0, pages, contents.MAX_SWEEP):
            for number in range(first, min(pages, first + contents.MAX_SWEEP)):
                newest.block(number)[:BLOCK_BITS] = some[dice.randrange(64)]
            store.commit(seen.prepare(everything=True))


def child(place: Path) -> None:
    """Print the figures of one life of the filter, and end as if killed."""
    begun = time.process_time()
    seen = BloomFilter.open(place, memory=0)
    opened = time.process_time() - begun
    name, so_far = f"k{os.getpid()}", written()
    added = _each(seen.add, keys(name, NEW))
    seen.checkpoint()
    kilobytes = (written() - so_far) / NEW / 1e3
    new = _each(seen.contains, [*keys(f"new{name}", ASKED)])
    old = [*keys(name, ASKED)]  # the sweep has written most of them
    known = _each(seen.contains, old)
    assert all(map(seen.contains, old))
    memory = int(field("/proc/self/status", "RssAnon").split()[0]) / 1e3
    print(json.dumps([opened, added, kilobytes, new, known, memory]), flush=True)
    os._exit(0)


def written() -> int:
    """Return the bytes that this process has asked to write."""
    return int(field("/proc/self/io", "wchar"))


def _each(call: Callable[[bytes], bool], asked: Iterable[bytes]) -> float:
    """µs of CPU time a call."""
    begun = time.process_time()
    count = sum(1 for key in asked if call(key) is not None)
    return (time.process_time() - begun) / count * 1e6


def main() -> int:
    if "--child" in sys.argv:
        child(Path(sys.argv[2]))
    report = Report(describe())
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        place = Path(name) / "seen"
        create(place)
        for when in ("first", "after a kill"):
            command = [sys.executable, __file__, "--child", str(place)]
            run = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            found = zip(GOALS.items(), json.loads(run.stdout), strict=True)
            cells = [
                f"{value:.2f}" if goal is None else report.bound(what, value, goal)
                for (what, goal), value in found
            ]
            rows.append([when, *cells])
    report.table(
        f"A filter for {URLS:,} URLs, p = {FPP:g}, {FILLED:.0%} full",
        f"{NEW:,} new keys a row; the second row begins with the journal of the"
        " first row, as after a kill.",
        ["", *GOALS],
        rows,
    )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
