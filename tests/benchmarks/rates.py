"""Tables 1 and 2: how often the filter is wrong, at capacity and past it."""

from __future__ import annotations

import math
from functools import partial

from machine import Clock, chunks, urls
from rivals import add, ask
from runner import Report

from bloomdupe import BloomFilter
from bloomdupe.filter.sizing import optimal_bits_per_key

MAX_QUESTIONS = 100_000_000


def filled(capacity: int, fpp: float, keys: int) -> BloomFilter:
    """Return a filter in memory that holds exactly so many keys."""
    target = BloomFilter(capacity, fpp)
    fill_to(target, keys)
    return target


def fill_to(target: BloomFilter, keys: int) -> None:
    """Add keys until the filter counts ``keys`` (it takes some for seen)."""
    start = len(target)
    while (missing := keys - len(target)) > 0:
        for some in chunks(start, start + missing):
            target.update(some)
        start += missing


def measure(target: BloomFilter, questions: int) -> float:
    """Share of keys never added that are called seen."""
    contains = target.contains
    hits = sum(sum(map(contains, keys)) for keys in chunks(0, questions, kind=b"new"))
    return hits / questions


def accuracy(report: Report, *, quick: bool) -> None:
    capacity = 100_000 if quick else 1_000_000
    rows = []
    for digits in range(1, 8):
        fpp = 10.0**-digits
        target = filled(capacity, fpp, capacity)
        questions = round(min(MAX_QUESTIONS, max(1_000_000, 60 / fpp)))
        if quick:
            questions = 200_000
        error = math.sqrt(fpp * (1 - fpp) / questions)
        rate = measure(target, questions)
        layer = target.info().layers[0]
        optimum = optimal_bits_per_key(fpp)
        rows.append(
            [
                f"{fpp:.0e}",
                f"{target.current_fpp():.2e}",
                report.bound(
                    f"rate at p = {fpp:.0e}", rate, 1.05 * fpp + 3 * error, ".2e"
                ),
                f"{error:.1e}",
                f"{round(rate * questions):,} in {questions:,}",
                str(layer.hashes),
                f"{layer.bits_per_key:.2f}",
                f"{optimum:.2f}",
                f"{layer.bits_per_key / optimum:.3f}",
            ]
        )
    report.table(
        "Accuracy",
        f"Full to its capacity of {capacity:,} keys, then asked for keys never added."
        " The bound is 1.05 p plus three standard errors (SE).",
        [
            *("p given", "calculated", "measured", "SE", "called seen"),
            *("k", "bits/key", "optimum", "ratio"),
        ],
        rows,
    )


def growth(report: Report, *, quick: bool) -> None:
    capacity = 10_000 if quick else 100_000
    questions = 200_000 if quick else 2_000_000
    fpp = 1e-3
    error = math.sqrt(fpp * (1 - fpp) / questions)
    rows = []
    target = BloomFilter(capacity, fpp)
    for times in (1, 2, 5, 10, 50):
        fill_to(target, times * capacity)
        layers = [layer for layer in target.info().layers if layer.keys]
        bits = sum(layer.bits_per_key * layer.capacity for layer in layers)
        rate = measure(target, questions)
        rows.append(
            [
                f"{times}",
                str(len(layers)),
                f"{target.current_fpp():.2e}",
                report.bound(
                    f"rate at {times} times the capacity",
                    rate,
                    fpp + 3 * error,
                    ".2e",
                ),
                f"{bits / sum(layer.capacity for layer in layers):.2f}",
                f"{bits / len(target):.2f}",
            ]
        )
    report.table(
        "Growth: rate",
        f"p = {fpp:g}, capacity {capacity:,}, {questions:,} questions. The bound is p"
        f" plus three standard errors ({error:.1e} each).",
        [
            *("keys / capacity", "layers", "calculated", "measured"),
            *("bits per key of capacity", "bits per key held"),
        ],
        rows,
    )
    growth_cost(report, capacity)


def growth_cost(report: Report, capacity: int) -> None:
    """Compare four layers with one layer of the same capacity and keys."""
    fpp, rounds = 1e-3, 5
    held = 10 * capacity
    step = capacity // 2
    filters = {
        "one layer": filled(15 * capacity, fpp, held),
        "four layers": filled(capacity, fpp, held),
    }
    actions = ("add new", "ask new", "ask seen")
    clocks = {name: {action: Clock() for action in actions} for name in filters}
    strangers, seen = urls(0, step, b"new"), urls(0, held, b"www")[:: held // step]
    for round_ in range(rounds):
        news = urls(held + round_ * step, held + (round_ + 1) * step)
        for name, target in filters.items():
            for action, keys in zip(actions, (news, strangers, seen), strict=True):
                clock = clocks[name][action]
                clock.begin()
                put = add if action == "add new" else ask
                clock.run(partial(put, target), keys)
                clock.end()
    found = {name: target.layer_count for name, target in filters.items()}
    if found != {"one layer": 1, "four layers": 4}:
        raise RuntimeError(f"not the layers that this table is about: {found}")
    rows = []
    for action in actions:
        one, four = (clocks[name][action] for name in filters)
        ratio = four.median / one.median
        rows.append(
            [
                action,
                *one.cells()[:2],
                *four.cells()[:2],
                report.bound(f"{action}, four layers over one", ratio, 2.0),
            ]
        )
    report.table(
        "Growth: cost",
        f"CPU time per key in ns, median and range of {rounds} interleaved rounds of"
        f" {step:,} keys; {held:,} to {held + rounds * step:,} keys in a filter of"
        f" capacity {15 * capacity:,} and in one grown from {capacity:,}; p = {fpp:g}.",
        ["", "one layer", "range", "four layers", "range", "ratio"],
        rows,
    )
