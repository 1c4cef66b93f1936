"""Table 3: the costs of a key, against the rivals in the same run."""

from __future__ import annotations

import random
import tempfile
from functools import partial
from pathlib import Path

import rivals
from bitarray import bitarray
from machine import Clock, available_memory, chunks, urls
from rivals import Contestant, add, ask, contestants
from runner import Report

from bloomdupe import BloomFilter
from bloomdupe.filter.sizing import PAGE_BITS

FPP = 1e-3
SET_BYTES = 250
"""Memory that a set takes per 70-byte key, generously."""

LIMITS = {
    1_000_000: {rivals.PYBLOOM_MMAP: 1.15, rivals.RBLOOM_CHECK: 1.35},
    10_000_000: {rivals.PYBLOOM_MMAP: 1.0, rivals.RBLOOM_CHECK: 1.25},
}
NOISE = 0.03
"""Two medians of the same thing may differ by this."""


def speed(report: Report, directory: Path, *, quick: bool, dice: random.Random) -> None:
    everybody = contestants()
    some = [one for one in everybody if one.name in rivals.SIZABLE]
    if quick:
        compare(report, directory, everybody, 1_000_000, 2, scale=10, dice=dice)
    else:
        compare(report, directory, everybody, 1_000_000, 5, scale=1, dice=dice)
        compare(report, directory, some, 10_000_000, 2, scale=1, dice=dice)
    by_size(report, quick=quick, dice=dice)


def compare(
    report: Report,
    directory: Path,
    everybody: list[Contestant],
    n: int,
    rounds: int,
    *,
    scale: int,
    dice: random.Random,
) -> None:
    """Fill the filters of all rivals, chunk by chunk in turn, and ask them."""
    keys = n // scale
    fits = available_memory() > 2 * SET_BYTES * keys
    everybody = [one for one in everybody if fits or not one.name.startswith("set")]
    fills = {one.name: Clock() for one in everybody}
    news = {one.name: Clock() for one in everybody}
    seens = {one.name: Clock() for one in everybody}
    seen, new = urls(0, keys)[:: keys // 50_000], urls(0, 50_000, b"new")
    for _ in range(rounds):
        dice.shuffle(everybody)
        with tempfile.TemporaryDirectory(dir=directory) as place:
            one_round(everybody, keys, Path(place), fills, seens, news, seen, new)
    ours = fills[rivals.OURS].median
    limits = LIMITS.get(keys, {})
    rows = []
    for one in sorted(everybody, key=lambda one: fills[one.name].median):
        clock = fills[one.name]
        ratio = f"{ours / clock.median:.2f}"
        if one.name in limits:
            what = f"n = {keys:,}: our add over {one.name}"
            ratio = report.bound(what, ours / clock.median, limits[one.name])
        if one.name == rivals.OURS_UPDATE:
            what = f"n = {keys:,}: update over add"
            ratio += ", inverse " + report.bound(what, clock.median / ours, 1 + NOISE)
        answers = [f"{found[one.name].median:,.0f}" for found in (seens, news)]
        name = one.name + (" (tenth of the keys)" if one.slow else "")
        rows.append([name, *clock.cells(), ratio, *answers])
    rows.append(["Guava (needs a JVM; not measured here)", *"-" * 6])
    if not fits:
        rows.append(["set (too little memory; not measured)", *"-" * 6])
    report.table(
        f"Speed at n = {keys:,}",
        f"A new 70-byte key into a filter for {keys:,} at p = {FPP:g}, filled from"
        f" empty to full: ns per key, median and range of {rounds} rounds in which all"
        " take turns chunk by chunk. `our add / it` is CPU time; below 1 we are"
        " faster. Then asked for 50,000 keys seen and 50,000 new ones.",
        [
            *("", "CPU", "range", "wall", "our add / it"),
            *("ask seen, CPU", "ask new, CPU"),
        ],
        rows,
    )


def one_round(
    everybody: list[Contestant],
    keys: int,
    place: Path,
    fills: dict[str, Clock],
    seens: dict[str, Clock],
    news: dict[str, Clock],
    seen: list[bytes],
    new: list[bytes],
) -> None:
    filters = {}
    for number, one in enumerate(everybody):
        n = keys // 10 if one.slow else keys
        filters[one.name] = one.make(n, FPP, place / str(number))
        fills[one.name].begin()
    for some in chunks(0, keys, size=min(250_000, keys // 10)):
        for one in everybody:
            part = some[::10] if one.slow else some
            fills[one.name].run(partial(one.fill, filters[one.name]), part)
    for one in everybody:
        fills[one.name].end()
        for clock, part in ((seens[one.name], seen), (news[one.name], new)):
            clock.begin()
            part = part[::10] if one.slow else part
            clock.run(partial(ask, filters[one.name]), part)
            clock.end()
    for one in everybody:
        close = getattr(filters[one.name], "close", None)
        if close is not None:
            close()


def quarter_full(capacity: int, dice: random.Random) -> BloomFilter:
    """Return a filter with all pages touched and a quarter of the bits set.

    That is the mean fill while a filter fills up. Random bits stand for keys:
    adding 30 million would take the time of all other tables together.
    """
    target = BloomFilter(capacity, FPP)
    layer = target._contents.newest
    for number in range(layer.geometry.pages):
        noise = dice.getrandbits(PAGE_BITS) & dice.getrandbits(PAGE_BITS)
        bits = bitarray(endian="little")
        bits.frombytes(noise.to_bytes(PAGE_BITS // 8, "little"))
        layer.page(number)[:PAGE_BITS] = bits
    return target


def by_size(report: Report, *, quick: bool, dice: random.Random) -> None:
    """The cost of a key in filters of growing size."""
    sizes = [1_000_000, 10_000_000] + ([] if quick else [100_000_000])
    rounds, step = (2, 50_000) if quick else (5, 200_000)
    filters = {size: quarter_full(size, dice) for size in sizes}
    adds = {size: Clock() for size in sizes}
    asks = {size: Clock() for size in sizes}
    for round_ in range(rounds):
        # The smallest would fill up: its keys of the last round go.
        filters[sizes[0]] = quarter_full(sizes[0], dice)
        news = urls(round_ * step, (round_ + 1) * step)
        strangers = urls(round_ * step, (round_ + 1) * step, b"new")
        for size, target in filters.items():
            for clock, call, keys in (
                (adds[size], add, news),
                (asks[size], ask, strangers),
            ):
                clock.begin()
                clock.run(partial(call, target), keys)
                clock.end()
    rows = []
    for size in sizes:
        ratio = adds[size].median / adds[sizes[0]].median
        rows.append(
            [
                f"{size:,}",
                f"{filters[size].memory_bytes / 1e6:,.0f} MB",
                *adds[size].cells(),
                report.bound(f"add at n = {size:,} over n = 1 M", ratio, 1.8)
                if size == 100_000_000
                else f"{ratio:.2f}",
                *asks[size].cells()[:2],
            ]
        )
    report.table(
        "Cost against size",
        f"`add` of new keys and asking for new ones, in memory, p = {FPP:g}; every page"
        " touched and a quarter of all bits set beforehand (the mean while a filter"
        f" fills). ns per key, median and range of {rounds} interleaved rounds of"
        f" {step:,} keys.",
        [
            *("n", "pages", "add, CPU", "range", "wall", "over 1 M"),
            *("ask new, CPU", "range"),
        ],
        rows,
    )
