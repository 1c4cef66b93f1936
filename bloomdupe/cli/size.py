"""``size``: the cost of a number of URLs and a false-positive probability."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from bloomdupe.cli.output import table
from bloomdupe.cli.verb import Answer
from bloomdupe.errors import SettingError, shown
from bloomdupe.filter import sizing
from bloomdupe.filter.layer import most_memory
from bloomdupe.filter.parameters import DEFAULT_FPP

if TYPE_CHECKING:
    from argparse import Namespace

FIGURES = (
    ("expected URLs (n)", "{urls:,}"),
    ("false-positive probability (p), given", "{fpp_given:.3g}"),
    ("  calculated", "{fpp_calculated:.3g}"),
    ("bits per key (m/n)", "{bits_per_key:.2f}"),
    ("  least possible for that p", "{bits_per_key_optimal:.2f}"),
    ("hashes (k)", "{hashes}"),
    ("share of bits set", "{fill:.1%}"),
    ("memory", "{memory_bytes:,} bytes"),
    ("  with BLOOMDUPE_FILTER_MEMORY = 0", "{memory_bytes_mapped:,} bytes"),
    ("disk, compacted", "{disk_bytes:,} bytes"),
)
"""Names and figures, in the order in which they are printed."""

AMOUNT = re.compile(r"([0-9_.]+(?:e[0-9]+)?)\s*([KMGT]?)(i?)(b?)", re.I)


def amount(text: str, name: str, examples: str) -> int:
    """Read a number, of URLs or of bytes: ``10_000_000``, ``1e7``, ``10M``, ``64MB``.

    K, M, G and T are powers of 1000; KiB, MiB, GiB and TiB are powers of 1024.
    """
    match = AMOUNT.fullmatch(text.strip())
    try:
        power = " KMGT".index(match[2].upper() or " ") if match else 0
        base = 1024 if match and match[3] else 1000
        number = float(match[1]) * base**power if match else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not number <= sizing.MOST_KEYS:
        raise SettingError(f"{name} {shown(text)} is not a number such as {examples}")
    return int(number)


def size(options: Namespace) -> Answer:
    """Calculate the figures."""
    capacity = sizing.check_capacity(
        amount(options.urls, "--urls", "10000000, 1e7 or 10M"), "--urls"
    )
    fpp = _given_fpp(options, capacity)
    shape = sizing.layer_geometry(capacity, fpp, 0)
    found: dict[str, Any] = {
        "urls": capacity,
        "fpp_given": fpp,
        "fpp_calculated": shape.rate(capacity),
        "bits_per_key_optimal": sizing.optimal_bits_per_key(fpp),
        "bits_per_key": shape.bits_per_key,
        "hashes": shape.hashes,
        "pages": shape.pages,
        "memory_bytes": shape.memory,
        "memory_bytes_mapped": most_memory(shape),
        "disk_bytes": shape.bits // 8,
        "fill": shape.fill(capacity),
    }
    return Answer(table((name, text.format(**found)) for name, text in FIGURES), found)


def _given_fpp(options: Namespace, capacity: int) -> float:
    """Return the given probability, or the probability that the given memory buys."""
    if options.memory is None:
        return sizing.check_fpp(options.fpp or DEFAULT_FPP, "--fpp")
    if options.fpp is not None:
        raise SettingError("give one of --fpp and --memory")
    bits = 8 * amount(options.memory, "--memory", "64MB or 1GiB") / capacity
    fpp = sizing.affordable_fpp(capacity, bits)
    if fpp is None:
        raise SettingError(
            f"{bits:.3g} bits per key are too few for {capacity:,} URLs: the smallest"
            f" filter, of p = {sizing.MAX_FPP:g}, takes more"
        )
    return fpp
