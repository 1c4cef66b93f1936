"""The costs of a filter that has grown to eight times its capacity.

    python tests/benchmarks/grown.py [--capacity N] [--rounds N]

Filters in memory at p = 1e-6 with 8 N keys: a filter made for so many, and filters
that began with N and grew by layers of 2 (as ours does), 3 and 4 times the size. Their
pages are filled with random bits, as full as so many keys would make them: to add 80
million keys would take minutes.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from itertools import count

from billion import noise
from machine import describe
from runner import Figures, Report, in_turn, options

from bloomdupe import BloomFilter
from bloomdupe.filter import sizing
from bloomdupe.filter.sizing import PAGE_BITS

FPP = 1e-6
TIMES = 8
ASKED = 30_000
ADDED = 10_000


def made(capacity: int, times: int, factor: int) -> tuple[BloomFilter, list[int]]:
    """Return a filter with so many times its capacity, and its layers' capacities."""
    dice = random.Random(1)
    seen = BloomFilter(capacity, FPP)
    contents, left = seen._contents, capacity * times
    contents.layers.clear()
    least, sizing.GROWTH_FACTOR = 1, factor
    for number in count():
        shape = sizing.layer_geometry(capacity, FPP, number)
        least = max(least, shape.hashes)
        keys = min(left, shape.capacity)
        some = [noise(dice, shape.fill(keys)) for _ in range(8)]
        layer = contents._append(shape)
        for page in range(shape.pages):
            layer.page(page)[:PAGE_BITS] = dice.choice(some)
        left -= keys
        if not left:
            break
    seen._point_at_newest()
    return seen, [layer.geometry.capacity for layer in contents.layers]


def timed(seen: BloomFilter, keys: int) -> dict[str, float]:
    dice = random.Random()
    found = {}
    for name, call, number in (
        ("ask", seen.contains, ASKED),
        ("add", seen.add, ADDED),
    ):
        found[name] = _microseconds(call, [dice.randbytes(20) for _ in range(number)])
    memory = sum(layer.geometry.memory for layer in seen._contents.layers)
    return {**found, "bytes": memory / keys}


def _microseconds(call: Callable[[bytes], bool], keys: list[bytes]) -> float:
    began = time.process_time()
    for key in keys:
        call(key)
    return (time.process_time() - began) / len(keys) * 1e6


def main() -> int:
    given = options(__doc__, rounds=5, capacity=10_000_000)
    report = Report(describe("bitarray", "mmh3"))
    keys = TIMES * given.capacity
    ways = {"made for so many": (keys, 1, 2)}
    for factor in (2, 3, 4):
        ways[f"grown by {factor}"] = (given.capacity, TIMES, factor)
    filters = {name: made(*way) for name, way in ways.items()}
    found: dict[str, Figures] = in_turn(
        given.rounds,
        {
            name: lambda seen=seen: timed(seen, keys)  # type: ignore[misc]
            for name, (seen, _) in filters.items()
        },
    )
    report.table(
        f"{keys:,} keys, begun with {given.capacity:,}",
        f"µs of CPU a key, median and range of {given.rounds} rounds in turn.",
        ["", "layers, millions", "ask new", "range", "add", "range", "bytes a key"],
        [
            [
                name,
                ", ".join(f"{layer / 1e6:g}" for layer in filters[name][1]),
                one.median("ask"),
                one.span("ask"),
                one.median("add"),
                one.span("add"),
                one.median("bytes"),
            ]
            for name, one in found.items()
        ],
    )
    return report.finish(given.json)


if __name__ == "__main__":
    sys.exit(main())
