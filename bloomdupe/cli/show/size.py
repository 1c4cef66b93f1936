"""``size``: the cost of a number of URLs and a false-positive probability."""

from __future__ import annotations

import argparse
import math
import re
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.table import table
from bloomdupe.cli.verb import Verb
from bloomdupe.errors import SettingError, shown
from bloomdupe.filter import sizing
from bloomdupe.filter.bloom import BloomFilter
from bloomdupe.filter.mapped_layer import most_memory
from bloomdupe.filter.parameters import DEFAULT_FPP

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_CAPACITY = 10_000_000

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
    return _amount(text, COUNTS, "10000000, 1e7 or 10M")


def memory(text: str) -> int:
    """Read a number of bytes: ``64M``, ``64MB``, ``1GiB``.

    K, M, G and T are powers of 1000; KiB, MiB, GiB and TiB are powers of 1024.
    """
    return _amount(text, BYTES, "64000000, 64MB or 1GiB")


def _amount(text: str, units: dict[str, int], examples: str) -> int:
    match = re.fullmatch(r"([0-9_.]+(?:e[0-9]+)?)\s*([A-Z]*)", text.strip(), re.I)
    try:
        number = float(match[1]) * units[match[2].upper()] if match else math.nan
    except (ValueError, OverflowError, KeyError):
        number = math.nan
    if not number <= sizing.MOST_KEYS:
        raise argparse.ArgumentTypeError(
            f"{shown(text)} is not a number such as {examples}"
        )
    return int(number)


class Size(Verb[dict[str, Any]]):
    """Arithmetic of filters, and, if asked for, a measurement."""

    name = "size"
    help = "calculate the size of a filter"
    description = (
        "Calculate the bits, memory and disk that a number of URLs and a"
        " false-positive probability need; or, with --bits-per-key or --memory, the"
        " probability that they allow."
    )
    example = "size --urls 10M --fpp 1e-6"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the capacity of a filter, and its limits."""
        parser.add_argument(
            "--urls",
            type=count,
            default=DEFAULT_CAPACITY,
            metavar="N",
            help="expected URLs, such as 10M (default: %(default)s)",
        )
        given = parser.add_mutually_exclusive_group()
        given.add_argument(
            "--fpp",
            metavar="P",
            default=str(DEFAULT_FPP),
            help="false-positive probability (default: %(default)s)",
        )
        given.add_argument(
            "--bits-per-key", type=float, metavar="BITS", help="bits for each URL"
        )
        given.add_argument(
            "--memory",
            type=memory,
            metavar="BYTES",
            help="memory for all, such as 64MB or 1GiB",
        )
        parser.add_argument(
            "--measure",
            action="store_true",
            help="fill such a filter (of at most a million keys) and count",
        )

    def run(self, options: argparse.Namespace) -> dict[str, Any]:
        """Calculate the figures; make a filter only to measure it."""
        capacity = sizing.check_capacity(options.urls, "--urls")
        fpp = _given_fpp(options, capacity)
        shape = sizing.layer_geometry(capacity, fpp, 0)
        report: dict[str, Any] = {
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
        if options.measure:
            report |= _measured(capacity, fpp)
        return report

    def text(self, result: dict[str, Any]) -> Iterable[str]:
        """Return the given, calculated and measured figures below each other."""
        return table(
            (name, figure.format(**result))
            for name, figure in FIGURES
            if figure != MEASURED or "fpp_measured" in result
        )

    def json(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return all of it."""
        return result


def _given_fpp(options: argparse.Namespace, capacity: int) -> float:
    """Return the given probability, or the probability that the given bits buy."""
    bits = options.bits_per_key
    if options.memory is not None:
        bits = 8 * options.memory / capacity
    if bits is None:
        return sizing.check_fpp(options.fpp, "--fpp")
    if not math.isfinite(bits):
        raise SettingError.of("--bits-per-key", bits, "a number of bits")
    fpp = sizing.affordable_fpp(capacity, bits)
    if fpp is None:
        raise SettingError(
            f"{bits:.3g} bits per key are too few for {capacity:,} URLs: the smallest"
            f" filter, of p = {sizing.MAX_FPP:g}, takes more"
        )
    return fpp


def _measured(capacity: int, fpp: float) -> dict[str, Any]:
    """Fill a filter and count false positives.

    In place of a huge filter, a smaller filter is filled.
    """
    size = min(capacity, MEASURED_KEYS)
    seen = BloomFilter(size, fpp)
    seen.update(f"in{i}" for i in range(size))
    hits = sum(f"out{i}" in seen for i in range(MEASURED_QUESTIONS))
    low, high = _wilson_interval(hits, MEASURED_QUESTIONS)
    return {
        "fpp_measured": hits / MEASURED_QUESTIONS,
        "fpp_low": low,
        "fpp_high": high,
        "questions": MEASURED_QUESTIONS,
    }


def _wilson_interval(hits: int, trials: int) -> tuple[float, float]:
    """95 % confidence interval of a proportion (E. B. Wilson, JASA 22, 1927)."""
    share = hits / trials
    square = Z95 * Z95
    middle = share + square / (2 * trials)
    half = Z95 * math.sqrt(
        share * (1 - share) / trials + square / (4 * trials * trials)
    )
    scale = 1 + square / trials
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)
