"""``size``: the cost of a number of URLs and a false-positive probability."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.table import table
from bloomdupe.cli.verb import Answer
from bloomdupe.errors import SettingError, shown
from bloomdupe.filter import sizing
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.mapped_layer import most_memory
from bloomdupe.filter.parameters import DEFAULT_FPP

if TYPE_CHECKING:
    from argparse import Namespace

SURE = "95 %: {fpp_low:.3g} to {fpp_high:.3g}"
MEASURED = "{fpp_measured:.3g} (" + SURE + ", {questions:,} questions)"
FIGURES = (
    ("expected URLs (n)", "{urls:,}"),
    ("false-positive probability (p), given", "{fpp_given:.3g}"),
    ("  calculated", "{fpp_calculated:.3g}"),
    ("  measured", MEASURED),
    ("  least possible with that many bits", "{fpp_optimal:.3g}"),
    ("bits per key (m/n)", "{bits_per_key:.2f}"),
    ("  least possible for that p", "{bits_per_key_optimal:.2f}"),
    ("hashes (k)", "{hashes}"),
    ("  of the filter with the fewest bits", "{hashes_optimal:.1f}"),
    ("share of bits set", "{fill:.1%}"),
    ("memory", "{memory_bytes:,} bytes"),
    ("  with BLOOMDUPE_FILTER_MEMORY = 0", "{memory_bytes_mapped:,} bytes"),
    ("disk, compacted", "{disk_bytes:,} bytes"),
)
"""Names and figures, in the order in which they are printed."""
MEASURED_KEYS = 1_000_000
MEASURED_QUESTIONS = 2_000_000
Z95 = 1.959964

DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
COUNTS = {**DECIMAL, "B": 10**9}
BYTES = {
    **{f"{unit}{b}": size for unit, size in DECIMAL.items() for b in ("", "B")},
    **{f"{unit}IB": 1 << 10 * power for power, unit in enumerate("KMGT", 1)},
}


def count(text: str) -> int:
    """Read a number of URLs: ``10000000``, ``10_000_000``, ``1e7``, ``10M``, ``1B``.

    K, M, G or B, and T are powers of 1000.
    """
    return _amount("--urls", text, COUNTS, "10000000, 1e7 or 10M")


def memory(text: str) -> int:
    """Read a number of bytes: ``64M``, ``64MB``, ``1GiB``.

    K, M, G and T are powers of 1000; KiB, MiB, GiB and TiB are powers of 1024.
    """
    return _amount("--memory", text, BYTES, "64000000, 64MB or 1GiB")


def _amount(name: str, text: str, units: dict[str, int], examples: str) -> int:
    match = re.fullmatch(r"([0-9_.]+(?:e[0-9]+)?)\s*([A-Z]*)", text.strip(), re.I)
    try:
        number = float(match[1]) * units[match[2].upper()] if match else math.nan
    except (ValueError, OverflowError, KeyError):
        number = math.nan
    if not number <= sizing.MOST_KEYS:
        raise SettingError(f"{name} {shown(text)} is not a number such as {examples}")
    return int(number)


def size(options: Namespace) -> Answer:
    """Calculate the figures; make a filter only to measure it."""
    capacity = sizing.check_capacity(count(options.urls), "--urls")
    fpp = _given_fpp(options, capacity)
    shape = sizing.layer_geometry(capacity, fpp, 0)
    found: dict[str, Any] = {
        "urls": capacity,
        "fpp_given": fpp,
        "fpp_optimal": sizing.optimal_fpp(shape.bits_per_key),
        "fpp_calculated": shape.rate(capacity),
        "bits_per_key_optimal": sizing.optimal_bits_per_key(fpp),
        "bits_per_key": shape.bits_per_key,
        "hashes_optimal": sizing.optimal_hashes(fpp),
        "hashes": shape.hashes,
        "pages": shape.pages,
        "memory_bytes": shape.memory,
        "memory_bytes_mapped": most_memory(shape),
        "disk_bytes": shape.bits // 8,
        "fill": shape.fill(capacity),
    }
    figures = [row for row in FIGURES if options.measure or row[1] != MEASURED]
    if options.measure:
        found |= _measured(capacity, fpp)
    return Answer(table((name, text.format(**found)) for name, text in figures), found)


def _given_fpp(options: Namespace, capacity: int) -> float:
    """Return the given probability, or the probability that the given bits buy."""
    given = [options.fpp, options.bits_per_key, options.memory]
    if given.count(None) < 2:
        raise SettingError("give one of --fpp, --bits-per-key and --memory")
    if options.memory is not None:
        bits = 8 * memory(options.memory) / capacity
    elif options.bits_per_key is not None:
        try:
            bits = float(options.bits_per_key)
        except ValueError:
            bits = math.nan
        if not math.isfinite(bits):
            raise SettingError.of("--bits-per-key", bits, "a number of bits")
    else:
        return sizing.check_fpp(options.fpp or DEFAULT_FPP, "--fpp")
    fpp = sizing.affordable_fpp(capacity, bits)
    if fpp is None:
        raise SettingError(
            f"{bits:.3g} bits per key are too few for {capacity:,} URLs: the smallest"
            f" filter, of p = {sizing.MAX_FPP:g}, takes more"
        )
    return fpp


def _measured(capacity: int, fpp: float) -> dict[str, Any]:
    """Fill a filter and count false positives.

    In place of a huge filter, a smaller filter is filled. The interval is of 95 %
    confidence (E. B. Wilson, JASA 22, 1927).
    """
    keys, trials = min(capacity, MEASURED_KEYS), MEASURED_QUESTIONS
    seen = BloomFilter(keys, fpp)
    seen.update(f"in{i}" for i in range(keys))
    share = sum(f"out{i}" in seen for i in range(trials)) / trials
    square = Z95 * Z95 / trials
    middle = share + square / 2
    half = Z95 * math.sqrt((share * (1 - share) + square / 4) / trials)
    return {
        "fpp_measured": share,
        "fpp_low": max(0.0, (middle - half) / (1 + square)),
        "fpp_high": min(1.0, (middle + half) / (1 + square)),
        "questions": trials,
    }
