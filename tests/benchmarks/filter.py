"""How often the filter is wrong: at its capacity, and when it has grown.

    python tests/benchmarks/filter.py [--quick]

Each figure that has a bound shows it, with "ok" or "MISSED"; the exit status is 1 if
one is missed. ``--quick`` takes a minute instead of ten, and its figures are rough.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

from machine import describe
from runner import Report, options

from bloomdupe import BloomFilter
from bloomdupe.filter.sizing import optimal_bits_per_key

MAX_QUESTIONS = 100_000_000


def keys(kind: bytes, start: int, stop: int) -> Iterator[list[bytes]]:
    """Yield distinct keys like URLs, many at a time."""
    for begin in range(start, stop, 250_000):
        yield [
            b"https://%b.shop-%05d.example/catalogue/page-%012d.html"
            % (kind, number % 9973, number)
            for number in range(begin, min(stop, begin + 250_000))
        ]


def fill(target: BloomFilter, count: int) -> None:
    """Add keys until the filter counts so many (it takes some for seen)."""
    start = len(target)
    while (missing := count - len(target)) > 0:
        for some in keys(b"www", start, start + missing):
            target.update(some)
        start += missing


def measure(target: BloomFilter, questions: int) -> float:
    """Share of keys never added that are called seen."""
    contains = target.contains
    return sum(sum(map(contains, some)) for some in keys(b"new", 0, questions)) / (
        questions
    )


def accuracy(report: Report, *, quick: bool) -> None:
    """Fill filters to their capacity, for each p."""
    capacity = 100_000 if quick else 1_000_000
    rows = []
    for digits in range(1, 8):
        fpp = 10.0**-digits
        target = BloomFilter(capacity, fpp)
        fill(target, capacity)
        questions = round(min(MAX_QUESTIONS, max(1_000_000, 60 / fpp)))
        if quick:
            questions = 200_000
        error = math.sqrt(fpp * (1 - fpp) / questions)
        rate = measure(target, questions)
        layer = target.info().layers[0]
        limit = 1.05 * fpp + 3 * error
        rows.append(
            [
                f"{fpp:.0e}",
                f"{target.current_fpp():.2e}",
                report.bound(f"rate at p = {fpp:.0e}", rate, limit, ".2e"),
                f"{round(rate * questions):,} in {questions:,}",
                str(layer.hashes),
                f"{layer.bits_per_key:.2f}",
                f"{layer.bits_per_key / optimal_bits_per_key(fpp):.3f}",
            ]
        )
    report.table(
        "Accuracy",
        f"Full to its capacity of {capacity:,} keys, then asked for keys never added."
        " The bound is 1.05 p plus three standard errors.",
        ["p", "calculated", "measured", "called seen", "k", "bits/key", "of least"],
        rows,
    )


def growth(report: Report, *, quick: bool) -> None:
    """Fill a filter far beyond its capacity."""
    capacity, questions = (10_000, 200_000) if quick else (100_000, 2_000_000)
    fpp = 1e-3
    limit = fpp + 3 * math.sqrt(fpp * (1 - fpp) / questions)
    rows = []
    target = BloomFilter(capacity, fpp)
    for times in (1, 2, 5, 10, 50):
        fill(target, times * capacity)
        layers = [layer for layer in target.info().layers if layer.keys]
        bits = sum(layer.bits_per_key * layer.capacity for layer in layers)
        what = f"rate at {times} times the capacity"
        rows.append(
            [
                f"{times}",
                str(len(layers)),
                f"{target.current_fpp():.2e}",
                report.bound(what, measure(target, questions), limit, ".2e"),
                f"{bits / len(target):.2f}",
            ]
        )
    report.table(
        "Growth",
        f"p = {fpp:g}, capacity {capacity:,}, {questions:,} questions. The bound is p"
        " plus three standard errors.",
        ["keys / capacity", "layers", "calculated", "measured", "bits/key"],
        rows,
    )


def main() -> int:
    given = options(__doc__, quick=False)
    report = Report(describe())
    accuracy(report, quick=given.quick)
    growth(report, quick=given.quick)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
