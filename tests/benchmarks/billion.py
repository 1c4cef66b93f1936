"""A filter that is larger than the memory that it may take.

    python tests/benchmarks/billion.py [--urls N] [--filled PERCENT] [--keys N]

A filter for N URLs is filled with random bits, as full as so many per cent of N URLs
would make it; to add a billion URLs would take hours. Then a new process opens it
with ``memory=0``, adds keys, asks questions, and ends as if killed. The next process
does the same.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bitarray import bitarray
from bitarray.util import zeros
from machine import describe, resident, written
from runner import Report, options

from bloomdupe import BloomFilter
from bloomdupe.filter import contents
from bloomdupe.filter.sizing import PAGE_BITS

FPP = 1e-6
GOALS = {"memory": 300.0, "ask": 4.0, "opened": 3.0, "written": 4.1}
"""MB of RssAnon, µs of CPU, seconds of CPU, kB a key."""
ASKED = 200_000
TURNS = 5


def keys(name: str, numbers: range) -> list[bytes]:
    return [f"https://{name}.example/{number}".encode() for number in numbers]


def create(place: Path, urls: int, filled: float) -> None:
    """Create the filter and fill all its pages with random bits."""
    contents.MAX_SWEEP = 4_096
    dice = random.Random(1)
    with BloomFilter.open(place, urls, FPP, memory=0) as seen:
        newest = seen._contents.newest
        share = newest.geometry.fill(filled * urls)
        some = [noise(dice, share) for _ in range(64)]
        store = seen.share_store()
        assert store is not None
        pages = newest.geometry.pages
        for first in range(0, pages, contents.MAX_SWEEP):
            for number in range(first, min(pages, first + contents.MAX_SWEEP)):
                newest.page(number)[:PAGE_BITS] = some[dice.randrange(64)]
            store.commit(seen._contents.prepare(everything=True))


def noise(dice: random.Random, share: float) -> bitarray:
    """Return bits of a page of which this share is set."""
    page = zeros(PAGE_BITS, endian="little")
    page[dice.sample(range(PAGE_BITS), round(share * PAGE_BITS))] = 1
    return page


def child(place: Path, count: int) -> None:
    """Print the figures of one life of the filter, and end as if killed."""
    begun = time.process_time()
    seen = BloomFilter.open(place, memory=0)
    found: dict[str, Any] = {"opened": time.process_time() - begun}
    name = f"k{os.getpid()}"
    found["cold"] = _each(seen.contains, keys(f"cold{name}", range(ASKED)))
    _, so_far = written()
    found["add"] = _each(seen.add, _all(name, count), count)
    seen.checkpoint()
    found["written"] = (written()[1] - so_far) / count / 1e3
    found["ask new"] = [
        _each(seen.contains, keys(f"new{turn}{name}", range(ASKED)))
        for turn in range(TURNS)
    ]
    old = keys(name, range(ASKED))  # the sweep has written most of them
    found["ask old"] = [_each(seen.contains, old) for _ in range(TURNS)]
    assert all(map(seen.contains, old))
    found["memory"] = resident()[0] / 1e6
    print(json.dumps(found), flush=True)
    os._exit(0)


def _all(name: str, count: int) -> Iterator[bytes]:
    for first in range(0, count, 10_000):
        yield from keys(name, range(first, min(count, first + 10_000)))


def _each(call: Callable[[bytes], bool], asked: Any, count: int | None = None) -> float:
    """µs of CPU time a call."""
    begun = time.process_time()
    for key in asked:
        call(key)
    return (time.process_time() - begun) / (count or len(asked)) * 1e6


def main() -> int:
    if "--child" in sys.argv:
        path, count = sys.argv[2:]
        child(Path(path), int(count))
    given = options(__doc__, urls=1_000_000_000, filled=90, keys=1_500_000)
    report = Report(describe())
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        place = Path(name) / "seen"
        create(place, given.urls, given.filled / 100)
        for when in ("first", "after a kill"):
            command = [sys.executable, __file__, "--child", str(place)]
            run = subprocess.run(
                [*command, str(given.keys)], check=True, stdout=subprocess.PIPE
            )
            found = json.loads(run.stdout)
            rows.append(
                [
                    when,
                    f"{found['opened']:.2f} s",
                    f"{found['cold']:.1f}",
                    f"{found['add']:.1f}",
                    f"{found['written']:.2f} kB",
                    *(_span(found[f"ask {which}"]) for which in ("new", "old")),
                    f"{found['memory']:,.0f} MB",
                ]
            )
        report.bound("MB of memory", found["memory"], GOALS["memory"])
        asked = sorted(found["ask new"])[TURNS // 2]
        report.bound("µs a question", asked, GOALS["ask"])
        report.bound("seconds to open", found["opened"], GOALS["opened"])
        report.bound("kB written a key", found["written"], GOALS["written"])
    report.table(
        f"A filter for {given.urls:,} URLs, p = {FPP:g}, {given.filled} % full",
        "CPU time in µs, user and system; the median of five rounds and the range."
        f" {given.keys:,} new keys a row; the second row begins with the journal of the"
        f" first row, as after a kill. `first`: {ASKED:,} questions after opening.",
        [
            *("", "opened", "first", "add", "written a key"),
            *("ask new", "ask old", "RssAnon"),
        ],
        rows,
    )
    return report.finish()


def _span(values: list[float]) -> str:
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    return f"{middle:.1f} ({ordered[0]:.1f}-{ordered[-1]:.1f})"


if __name__ == "__main__":
    sys.exit(main())
